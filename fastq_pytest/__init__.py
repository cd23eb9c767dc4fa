"""The pytest plugin of fastq: fixtures for a database of tests, for clients, and for working the jobs that a test enqueues.

pytest imports this in each of its runs, wherever fastq is installed (the entry point `pytest11`), also for projects that test
nothing of fastq. So it lies beside the package, whose `__init__.py` imports a good part of it, and imports fastq in fixtures
alone, which run when a test asks for them. All that it does is in fastq/testing/; here are names, scopes and pytest's settings.

Runs in the process of pytest, and in each worker process of pytest-xdist: each has a database of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastq import AsyncClient, Client, Config, Registry
    from fastq.testing import AsyncJobs, Jobs

SETTINGS = {
    "fastq_app": "the registry of the application, as for `fastq run`: app.jobs:registry",
    "fastq_server_url": "the URL of a server on which the role may create databases; without it an embedded Postgres is started",
    "fastq_data_dir": "the folder of the embedded Postgres; by default one of the user's own cache",
}
"""The settings in pytest's configuration file, with their helps."""

SERVER = "FASTQ_TEST_DATABASE_URL"
"""The variable that names the server where the setting does not: in CI it is another one than on a desk."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    for name, text in SETTINGS.items():
        parser.addini(name, text, default="")


@pytest.fixture(scope="session")
def fastq_server_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """Give the URL of a Postgres server to create databases on: the configured one, or an embedded one."""
    url = os.environ.get(SERVER) or pytestconfig.getini("fastq_server_url")
    if url:
        yield str(url)
        return
    from fastq.testing.databases import serving  # noqa: PLC0415 - as all imports of fastq here

    with serving(str(pytestconfig.getini("fastq_data_dir"))) as embedded:
        yield embedded


@pytest.fixture(scope="session")
def fastq_database_url(fastq_server_url: str) -> Iterator[str]:
    """Give the URL of a database of this run's own. Override it to return that of your tests: fastq's tables go there then."""
    from fastq.testing.databases import fresh  # noqa: PLC0415

    with fresh(fastq_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def fastq_schema() -> str:
    """Name the schema of fastq's tables; override it where the application uses another one."""
    return "fastq"


@pytest.fixture(scope="session")
def fastq_prepared_config(fastq_database_url: str, fastq_schema: str) -> Iterator[Config]:
    """Migrate the database, once; return the configuration that leads there."""
    from fastq import Config  # noqa: PLC0415
    from fastq.testing import prepare  # noqa: PLC0415
    from fastq.testing.databases import kept  # noqa: PLC0415

    prepare(fastq_database_url, fastq_schema)
    with kept():
        yield Config.load(database_url=fastq_database_url, schema=fastq_schema)


@pytest.fixture
def fastq_config(fastq_prepared_config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """Return the configuration of this test's database, which is empty before and after; programs find it in the environment."""
    from fastq.testing.databases import emptied  # noqa: PLC0415

    monkeypatch.setenv("FASTQ_DATABASE_URL", fastq_prepared_config.database_url)
    monkeypatch.setenv("FASTQ_SCHEMA", fastq_prepared_config.schema)
    with emptied(fastq_prepared_config):
        yield fastq_prepared_config


@pytest.fixture
def fastq_client(fastq_config: Config) -> Client:
    """Return a client of this test's database; its connections are used again by the next test."""
    from fastq.testing.databases import kept_client  # noqa: PLC0415

    return kept_client(fastq_config)


@pytest.fixture
def fastq_async_client(fastq_config: Config) -> Iterator[AsyncClient]:
    """Return a client for event loops, of this test's database; it connects on the loop that uses it first."""
    from fastq import AsyncClient  # noqa: PLC0415
    from fastq.testing.at_work import end  # noqa: PLC0415

    client = AsyncClient(config=fastq_config)
    yield client
    end(client)


@pytest.fixture(scope="session")
def fastq_registry(pytestconfig: pytest.Config) -> Registry | None:
    """Return the registry with the workers: that of the setting fastq_app. Override it to return your own."""
    target = str(pytestconfig.getini("fastq_app"))
    if not target:
        return None
    from fastq import app  # noqa: PLC0415

    return app.load(target, pytestconfig.rootpath)


@pytest.fixture
def fastq_jobs(fastq_config: Config, fastq_registry: Registry | None) -> Iterator[Jobs]:
    """Return the jobs of this test: `fastq_jobs.assert_enqueued(...)`, `fastq_jobs.drain()`."""
    from fastq.testing import Jobs  # noqa: PLC0415
    from fastq.testing.databases import kept_session  # noqa: PLC0415

    jobs = Jobs(fastq_registry, config=fastq_config)
    jobs.share(kept_session(fastq_config))
    yield jobs
    jobs.close()


@pytest.fixture
def fastq_async_jobs(fastq_config: Config, fastq_registry: Registry | None) -> Iterator[AsyncJobs]:
    """Return the jobs of a test that awaits: `await fastq_async_jobs.drain()`."""
    from fastq.testing import AsyncJobs  # noqa: PLC0415
    from fastq.testing.databases import kept_session  # noqa: PLC0415

    jobs = AsyncJobs(fastq_registry, config=fastq_config)
    jobs.share(kept_session(fastq_config))
    yield jobs
    jobs.close()

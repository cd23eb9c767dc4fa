"""`fastq check`: which jobs that wait the code could not run, and how a pipeline learns of them."""

import json

import pytest

from tests.helpers import execute

APP = """
    from dataclasses import dataclass

    from fastq import Args, Job, Registry, Worker

    registry = Registry()

    @dataclass
    class MailArgs(Args, kind="mail"):
        to: str

    @registry.register
    class Mail(Worker[MailArgs]):
        def work(self, job: Job[MailArgs]) -> None:
            raise AssertionError("check runs no job")
"""
JOBS = "insert into fastq.job (kind, args) select %s, args::json from unnest(%s::text[]) as args"


@pytest.fixture
def app(tmp_path):
    (tmp_path / "checked.py").write_text("\n".join(line[4:] for line in APP.splitlines()))
    return "checked:registry"


@pytest.fixture
def check(fastq, database, tmp_path, app):
    """Give a function that runs the command against the database."""
    return lambda *options: fastq("check", app, "--app-dir", tmp_path, "--against", database, *options)


def test_jobs_that_the_code_can_run_are_no_findings(check, database):
    execute(database, JOBS, "mail", ['{"to": "ada"}', '{"to": "bob", "later": 1}'])

    told = check()

    assert (told.returncode, told.stdout) == (0, "")
    assert told.stderr == "looked at 2 jobs: checked:registry could run all of them\n"


def test_args_that_do_not_decode_and_unknown_kinds_are_told_with_a_count_and_the_first_of_them(check, database):
    execute(database, JOBS, "mail", ['{"to": "ada"}', '{"to": null}', "{}"])
    execute(database, JOBS, "scan", ["{}", "{}"])

    told = check()
    (mail, scan) = json.loads(check("--json").stdout)["misfits"]

    assert told.returncode == 1
    assert "mail" in told.stdout
    assert told.stderr == "looked at 5 jobs: checked:registry could run all but 4 of them\n"
    assert mail == {"kind": "mail", "jobs": 3, "misfits": 2, "sample": 2, "reason": "field 'to': expected `str`, got `null`"}
    assert scan == {"kind": "scan", "jobs": 2, "misfits": 2, "sample": 4, "reason": "no worker has this kind"}


def test_it_looks_at_the_oldest_jobs_and_says_where_it_stopped(check, database):
    execute(database, JOBS, "mail", ['{"to": "ada"}'] * 700)
    execute(database, JOBS, "mail", ["{}"])

    told, further = check("--most", "600"), check()

    assert told.stderr == "looked at the oldest 600 jobs; --most looks at more: checked:registry could run all of them\n"
    assert (told.returncode, further.returncode) == (0, 1)
    assert further.stderr == "looked at 701 jobs: checked:registry could run all but 1 of them\n"


def test_it_changes_nothing(check, database):
    execute(database, JOBS, "mail", ["{}"])
    before = execute(database, "select job::text from fastq.job as job")

    assert check().returncode == 1
    assert execute(database, "select job::text from fastq.job as job") == before


@pytest.mark.parametrize("options", [("--most", "0"), ("--most", "-1"), ("--most", "many")], ids=" ".join)
def test_a_number_of_jobs_that_makes_no_sense_is_refused(check, options):
    told = check(*options)

    assert told.returncode == 2
    assert "most" in told.stderr


def test_args_of_a_newer_version_and_older_ones_that_do_not_upgrade_are_told_by_kind_and_version(fastq, database, tmp_path):
    text = APP.replace('kind="mail"', 'kind="mail", version=2, aliases=["post"]').replace(
        "Registry, Worker", "Registry, Worker, upgrade"
    )
    steps = ["", "@upgrade(MailArgs, from_version=1)", "def step(args):", "    return {'to': args['address']}", ""]
    lines = [line[4:] for line in text.splitlines()]
    at = lines.index("@registry.register")
    (tmp_path / "checked.py").write_text("\n".join([*lines[:at], *steps, *lines[at:]]))
    execute(database, JOBS, "mail", ['{"address": "ada"}', '{"adress": "eve"}'])
    execute(database, JOBS, "post", ['{"address": "bob"}'])
    versions = (
        "insert into fastq.job (kind, args, meta) values ('mail', '{\"to\": \"joe\"}', jsonb_build_object('version', %s::int))"
    )
    for version in (2, 3):
        execute(database, versions, version)

    told = fastq("check", "checked:registry", "--app-dir", tmp_path, "--against", database, "--json")
    (older, newer) = json.loads(told.stdout)["misfits"]

    assert told.returncode == 1
    assert (older["kind"], older["misfits"]) == ("mail", 1)
    assert older["reason"] == "the upgrade from version 1 raised KeyError: 'address'"
    assert newer == {
        "kind": "mail@3",
        "jobs": 1,
        "misfits": 1,
        "sample": 5,
        "reason": "its args have version 3, and this code knows versions up to 2",
    }

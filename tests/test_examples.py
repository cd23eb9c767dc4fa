"""Each example runs: its jobs are enqueued by its program and worked by real processes, as its first lines say."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import execute, wait_for

pytestmark = pytest.mark.further

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if "Registry()" in path.read_text())

MORE = {  # what is left to do, where that is not the number of jobs: three pulses and the report; callbacks, which come after all
    "batch": "select 2 - count(*) from fastq.job_archive where kind = 'tell'",
    "workflow": "select 1 - count(*) from fastq.job_archive where kind = 'sweep'",
    "operations": "select 6 - count(*) from fastq.job_archive where kind = 'pay' and state = 'completed'",
    "versions": "select 4 - count(*) from fastq.job_archive",
    "periodic": "select 4 - count(*) from (select kind from fastq.job_archive order by kind = 'pulse', id limit 4) as job",
}

Rows = list[tuple[object, ...]]


def states(database: str) -> Rows:
    """Return kind, state and number of the finished jobs."""
    return execute(
        database, "select kind, state::text, count(*), max(attempt)::int from fastq.job_archive group by 1, 2 order by 1, 2"
    )


def run_example(name: str, database: str) -> str:
    """Enqueue the example's jobs, work them until none is left, and return what the processes printed."""
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    module = f"examples.{name}"
    enqueued = subprocess.run(
        [sys.executable, "-m", module], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    run = [sys.executable, "-m", "fastq", "run", f"{module}:registry", "--procs", "1"]
    supervisor = subprocess.Popen(run, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: execute(database, MORE.get(name, "select count(*) from fastq.job")) == [(0,)], 40, f"the end of {name}")
    finally:
        supervisor.terminate()
        printed, _ = supervisor.communicate(timeout=30)
    assert supervisor.returncode == 0
    return enqueued.stdout + printed


def check_quickstart(database: str, printed: str) -> None:
    assert states(database) == [
        ("flaky", "completed", 1, 3),
        ("greet", "completed", 3, 1),
        ("oven", "completed", 1, 1),
        ("sort", "completed", 2, 1),
    ]
    assert "hello, Ada" in printed


def check_transaction(database: str, printed: str) -> None:
    assert states(database) == [("welcome", "completed", 1, 1)]
    assert execute(database, "select name from example_account") == [("Ada",)]
    assert "no account, no job" in printed


def check_tested(database: str, printed: str) -> None:
    assert states(database) == [("welcome_mail", "completed", 2, 1)]
    assert "'How is it going?' to ada@example.com" in printed


def check_async_worker(database: str, printed: str) -> None:
    assert states(database) == [("fetch", "completed", 10, 1), ("fetch", "discarded", 1, 1)]
    beside = execute(database, "select max((output ->> 'beside')::int) from fastq.job_archive")
    assert beside[0][0] > 3, "fetches wait beside each other"
    assert "fetched" in printed


def check_typed_args(database: str, printed: str) -> None:
    kinds = ["invoice", "label", "order", "parcel", "review"]
    assert states(database) == [(kind, "completed", 1, 1) for kind in kinds]
    assert "refused: args of kind 'order', field 'note': a NUL" in printed


def check_versions(database: str, printed: str) -> None:
    assert states(database) == [("letter", "completed", 1, 1), ("mail", "completed", 3, 1)]
    assert execute(database, "select state::text, waits_for from fastq.job") == [("waiting", "worker:mail@4")]
    assert sorted(printed.splitlines()) == ["letter to Ada", "mail to Alan, Kurt", "mail to Edsger, urgent", "mail to Grace"]


def check_secret(database: str, printed: str) -> None:
    assert states(database) == [("payment", "completed", 1, 1), ("payment", "discarded", 1, 1), ("token", "completed", 1, 1)]
    stored = execute(database, "select string_agg(job::text, '') from fastq.job_archive as job")
    assert "4111" not in str(stored)
    assert "s3cr3t" not in str(stored) + printed
    assert "ValueError: card ••• cannot pay PaymentArgs(•••)" in str(stored)
    assert "user 7 has •••, of 12 characters" in printed
    assert "the same token, the same job: True" in printed


def check_idempotent(database: str, printed: str) -> None:
    assert states(database) == [("charge", "completed", 3, 2)]
    assert execute(database, "select count(*), sum(cents)::int from example_payment") == [(3, 1500)]
    assert printed.count("had been charged") == 3


def check_effects_once(database: str, printed: str) -> None:
    assert [(kind, state, count) for kind, state, count, _ in states(database)] == [
        ("transfer", "completed", 10),
        ("transfer_mail", "completed", 10),
    ]
    assert execute(database, "select owner, cents from example_balance order by 1") == [("Ada", 9000), ("Grace", 1000)]
    assert execute(database, "select count(*), count(distinct job_id) from example_transfer") == [(10, 10)]
    assert len(set(re.findall(r"transfer \d+ is done", printed))) == 10


def check_singleton(database: str, printed: str) -> None:
    revenue = execute(database, "select customer, cents from example_revenue order by customer")
    assert revenue == [("Ada", 500), ("Barbara", 900), ("Grace", 600)]
    assert "revenue  Ada 500, Barbara 900, Grace 600" in printed
    mails = execute(database, "select count(*)::int from fastq.once where name = 'singleton:mails'")
    assert mails == [(printed.count("thank you for order"),)]
    assert [kind for kind, *_ in states(database)] == ["report"]


def check_periodic(database: str, printed: str) -> None:
    assert printed.count(" 09:00 CE") == 5
    assert printed.count("pulse    for") >= 3
    assert execute(database, "select count(*), count(distinct tags) from fastq.job_archive where kind = 'report'") == [(1, 1)]
    pulses = execute(database, "select count(*), count(distinct tags[2]) from fastq.job_archive where kind = 'pulse'")
    assert pulses[0][0] == pulses[0][1], "each tick once"


def check_bulk(database: str, printed: str) -> None:
    assert states(database) == [("view", "completed", 1500, 1), ("view", "discarded", 1, 1)]
    counts = [int(number) for number in re.findall(r"insert (\d+) views of", printed)]
    assert sum(counts) == 1500
    assert max(counts) <= 200
    assert len(counts) < 50


def check_limits(database: str, printed: str) -> None:
    assert states(database) == [("call", "completed", 24, 1), ("export", "completed", 3, 1)]
    assert re.search(r"job \d+ waits at the gate 'crm-api' for key \"Ada\"", printed)
    ran = execute(
        database,
        "select args ->> 'account', case kind when 'export' then 2 else 1 end, (output ->> 0)::float, (output ->> 1)::float "
        "from fastq.job_archive",
    )

    def beside(moment: float, account: str | None = None) -> int:
        return sum(weight for name, weight, began, ended in ran if began <= moment < ended and account in (None, name))

    assert all(beside(began, account) <= 2 for account, _, began, _ in ran)
    assert max(beside(began) for _, _, began, _ in ran) > 2, "accounts do not wait for each other"


def check_order(database: str, printed: str) -> None:
    assert states(database) == [("release", "completed", 1, 1), ("write", "completed", 14, 1), ("write", "discarded", 1, 1)]
    assert re.search(r'"Grace" is held by job \d+; going on without it', printed)
    assert printed.index("going on without it") < printed.index("Grace    event 4")
    ran = execute(
        database,
        "select args ->> 'stream', (args ->> 'event')::int, (output ->> 0)::float, (output ->> 1)::float "
        "from fastq.job_archive where kind = 'write' and state = 'completed' order by 1, 3",
    )
    for (stream, event, _, ended), (other, later, began, _) in itertools.pairwise(ran):
        assert stream != other or (event < later and ended <= began), "one after the other"


def check_rates(database: str, printed: str) -> None:
    assert states(database) == [("sms", "completed", 25, 1)]
    assert re.search(r"job \d+ waits at the gate 'sms-api' for key \"Ada\": 10 may start in 2 s", printed)
    rows = execute(database, "select args ->> 'account', extract(epoch from attempted_at)::float from fastq.job_archive")
    for account in ("Ada", "Grace"):
        starts = [float(str(at)) for name, at in rows if name == account]
        assert max(sum(begin <= at <= begin + 2 for at in starts) for begin in starts) <= 10 + 2


def check_fairness(database: str, printed: str) -> None:
    assert states(database) == [("report", "completed", 75, 1)]
    assert re.search(r"job \d+ waits at the gate 'customers' for key \"Barbara\"", printed)
    began = "select args ->> 'customer' from fastq.job_archive order by (output)::text::float"
    order = [str(customer) for (customer,) in execute(database, began)]
    done = {customer: len(order) - order[::-1].index(customer) for customer in ("Ada", "Grace", "Barbara")}
    assert done["Grace"] < done["Ada"]
    assert done["Barbara"] < done["Ada"], "a round has two of hers"
    assert max(done["Grace"], done["Barbara"]) < 40, order


def check_workflow(database: str, printed: str) -> None:
    assert states(database) == [
        ("fetch_orders", "completed", 1, 1),
        ("mail_report", "completed", 1, 1),
        ("sum_region", "cancelled", 1, 1),
        ("sum_region", "completed", 4, 1),
        ("sweep", "completed", 1, 1),
    ]
    assert "nowhere  cancelled None\nto ada@example.org: 1600\n" in printed
    assert printed.index("2026-11-19: swept") > printed.index("to ada@example.org")
    assert execute(database, "select completed, cancelled, ended_at is not null from fastq.workflow") == [(6, 1, True)]


def check_batch(database: str, printed: str) -> None:
    assert states(database) == [
        ("mail_list", "completed", 1, 1),
        ("mail_one", "completed", 22, 1),
        ("mail_one", "discarded", 1, 1),
        ("tell", "completed", 2, 1),
    ]
    assert "all mails are out: 23 of 24" in printed
    assert printed.count("a mail has failed") == 1


def check_unique(database: str, printed: str) -> None:
    assert states(database) == [("sync", "completed", 3, 1)]
    assert printed.count("first asked for by change 1\n") == 3


def check_pausing(database: str, printed: str) -> None:
    assert states(database) == [("call_provider", "completed", 3, 1), ("note", "completed", 1, 1)]
    told = re.search(r"job \d+ waits because kind 'call_provider' is paused .*, until (.*) UTC: the provider is down", printed)
    assert told
    early = "select id from fastq.job_archive where kind = 'call_provider' and attempted_at < %s::timestamptz"
    assert execute(database, early, f"{told[1]} UTC") == []
    assert "notes are written meanwhile\n" in printed


def check_hooks(database: str, printed: str) -> None:
    assert states(database) == [("invoice", "completed", 2, 1), ("invoice", "discarded", 1, 1)]
    assert "acme      invoice 1 of job" in printed
    assert printed.count("took") == 3
    errors = execute(database, "select errors -> -1 ->> 'error' from fastq.job_archive where state = 'discarded'")
    assert errors == [("discarded: nobody to send it to: LookupError: no such customer",)]


def check_isolation(database: str, printed: str) -> None:
    assert states(database) == [("thumbnail", "completed", 3, 1), ("thumbnail", "discarded", 3, 1)]
    assert printed.count("thumbnail of") == 3
    errors = execute(database, "select errors -> -1 ->> 'error' from fastq.job_archive where state = 'discarded' order by id")
    for (error,), part in zip(errors, ("(signal 11)", "limit of memory, 128 MiB", "and was killed"), strict=True):
        assert part in str(error)


def check_results(database: str, printed: str) -> None:
    assert "the report is job 1" in printed
    assert states(database) == [("report", "completed", 1, 1)]
    watch = [sys.executable, "-m", "examples.results", "1"]
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    watched = subprocess.run(watch, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    assert watched.stdout.startswith("300 rows at ")
    assert execute(database, "select fraction, text from fastq.job_progress") == [(1.0, "row 300")]


def check_job_logs(database: str, printed: str) -> None:
    assert states(database) == [("import", "completed", 1, 2)]
    assert printed.count("reading file") == 7
    follow = [sys.executable, "-m", "examples.job_logs", "1"]
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    followed = subprocess.run(follow, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.partition(": ")[2] for line in followed[2:5]] == ["reading file 3", "file 3 is locked", "reading file 1"]
    assert followed[-1].endswith("info    shop.imports: all 4 files are read")
    assert [line[:9] for line in followed] == ["attempt 1"] * 4 + ["attempt 2"] * 5


def check_events(database: str, printed: str) -> None:
    assert states(database) == [("pay", "completed", 2, 1), ("pay", "discarded", 2, 1)]


def check_stats(database: str, printed: str) -> None:
    assert states(database) == [("parcel", "completed", 52, 1), ("parcel", "discarded", 8, 1)]
    show = [sys.executable, "-m", "examples.stats", "show"]
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    told = subprocess.run(show, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout
    assert told.startswith("60 of kind parcel, 8 of them sent back\nhalf of them took up to ")
    assert told.endswith("of 60 attempts were timed\n0 more wait\n")


def check_dashboard(database: str, printed: str) -> None:
    assert [row[:3] for row in states(database)] == [("thumbnail", "completed", 16), ("thumbnail", "discarded", 4)]
    program = (
        "from starlette.testclient import TestClient; from examples.dashboard import app; "
        "ada = TestClient(app, headers={'authorization': 'Basic YWRhOmxvdmVsYWNl'}); "
        "print(TestClient(app).get('/ops/fastq/').status_code, 'has no pixels' in ada.get('/ops/fastq/dead').text)"
    )
    environment = {**os.environ, "FASTQ_DATABASE_URL": database}
    asked = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    assert asked.stdout.split() == ["401", "True"]


def check_dead_letters(database: str, printed: str) -> None:
    assert [row[:3] for row in states(database)] == [("mend", "completed", 1), ("pay", "completed", 6), ("pay", "discarded", 6)]
    assert "6 jobs of kind pay failed: ConnectionError: <address> did not answer for order <n>" in printed
    assert printed.count("is paid by a job that replays job") == 6


def check_operations(database: str, printed: str) -> None:
    assert [row[:3] for row in states(database)] == [("mend", "completed", 1), ("pay", "completed", 6)]
    assert printed.count(": ConnectionError: the provider does not answer") == 6
    assert "operation 1 runs 6 jobs once more" in printed
    assert printed.count("is paid by attempt 2") == 6
    assert execute(database, "select asked_by, verb, jobs from fastq.audit") == [("ada", "retry", 6)]


def check_expiry(database: str, printed: str) -> None:
    text = "select kind, meta ->> 'cause' from fastq.job_archive order by 1, 2"
    assert execute(database, text) == [  # a quote that is too slow never starts where the workers were late themselves
        ("export", None),
        ("login_code", "expired"),
        ("login_code", None),
        ("moody", "failed"),
        ("quote", "deadline"),
        ("quote", None),
    ]
    assert "a code for Ada" in printed
    assert "a code for Grace" not in printed


def check_steps(database: str, printed: str) -> None:
    assert states(database) == [("order", "completed", 3, 2)]
    assert {line for line in printed.splitlines() if line.startswith(("charge", "ship", "refund"))} == {
        "charge   Ada",
        "charge   Barbara",
        "charge   Grace",
        "refund   Barbara: nobody has approved it",
        "ship     to Ada, approved by Hedy",
        "ship     to Grace, approved by Hedy",
    }
    assert printed.count("charge   Ada") == 1  # the others may have been at it when the process died


CHECKS: dict[str, Callable[[str, str], None]] = {
    "quickstart": check_quickstart,
    "transaction": check_transaction,
    "async_worker": check_async_worker,
    "typed_args": check_typed_args,
    "versions": check_versions,
    "secret": check_secret,
    "idempotent": check_idempotent,
    "effects_once": check_effects_once,
    "singleton": check_singleton,
    "periodic": check_periodic,
    "isolation": check_isolation,
    "bulk": check_bulk,
    "limits": check_limits,
    "order": check_order,
    "rates": check_rates,
    "fairness": check_fairness,
    "unique": check_unique,
    "workflow": check_workflow,
    "batch": check_batch,
    "pausing": check_pausing,
    "hooks": check_hooks,
    "results": check_results,
    "job_logs": check_job_logs,
    "events": check_events,
    "stats": check_stats,
    "dead_letters": check_dead_letters,
    "operations": check_operations,
    "expiry": check_expiry,
    "steps": check_steps,
    "tested": check_tested,
    "dashboard": check_dashboard,
}


@pytest.mark.process
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_does_what_it_says(name: str, database: str) -> None:
    CHECKS[name](database, run_example(name, database))


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_begins_with_the_commands_that_start_it(name: str) -> None:
    text = (ROOT / "examples" / f"{name}.py").read_text()
    assert re.search(rf"^fastq dev examples\.{name}:registry", text, re.MULTILINE)
    assert re.search(rf"^python -m examples\.{name}\b", text, re.MULTILINE)


def test_the_tests_of_an_example_pass(server: str) -> None:
    environment = {**os.environ, "FASTQ_TEST_DATABASE_URL": server}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_tested.py"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stdout + done.stderr

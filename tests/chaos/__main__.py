"""`python -m tests.chaos --jobs 20000 --kills 23`: one run, its account, and 1 as exit code if anything cannot be explained."""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from fastq.postgres import embedded
from fastq.schema.migrate import migrate
from tests.chaos.run import Plan, run
from tests.helpers import create_database, drop_database


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=20, help="worker processes to SIGKILL")
    parser.add_argument("--supervisor-kills", type=int, default=0, help="supervisors to SIGKILL")
    parser.add_argument("--procs", type=int, default=2, help="worker processes")
    parser.add_argument("--every", type=float, default=0.5, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=None, help="draws naps, victims and times; random if not given")
    parser.add_argument("--database", help="a server where databases may be created; an embedded one if not given")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if options.seed is None else options.seed
    plan = Plan(options.jobs, options.kills, options.supervisor_kills, options.procs, seed, options.every)

    for name in [name for name in os.environ if name.startswith("FASTQ_")]:
        del os.environ[name]
    folder = Path(tempfile.mkdtemp(prefix="fastq-chaos-", dir="/tmp"))
    folder.chmod(0o755)  # the embedded server of root runs as another user
    with ExitStack() as stack:
        server = options.database or stack.enter_context(embedded.start(folder / "postgres")).url
        name = f"fastq_chaos_{os.getpid()}"
        url = create_database(server, name)
        stack.callback(drop_database, server, name)
        migrate(url)
        ledgers = folder / "ledgers"
        ledgers.mkdir()
        figures = run(plan, url, ledgers)
    if figures["passed"]:
        shutil.rmtree(folder)
    else:
        figures["evidence"] = str(folder)
    if options.json:
        print(json.dumps(figures))
    else:
        for key, value in figures.items():
            print(f"{key:24s} {value}")
    return 0 if figures["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())

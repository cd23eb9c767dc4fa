"""`fastq check`: list the jobs that wait in a database and that this code could not run, before the code is deployed.

Runs in the main thread of the command, which imports the application and starts nothing of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fastq import app
from fastq.admin.deploys.misfits import MOST, check_jobs
from fastq.cli.terminal import output, settings
from fastq.cli.terminal.database import opened, tell_app
from fastq.cli.terminal.parser import whole

if TYPE_CHECKING:
    from fastq.admin.deploys.misfits import Checked

EPILOG = """\
examples:
  fastq check app.jobs:registry --against postgresql://app@db/shop
  fastq check app.jobs:registry --json            for a step of a pipeline

It reads the jobs that have not ended, oldest first, and decodes their args
as the workers of this code would. It changes nothing and runs no job.

Exit code 1 if there is a job that this code could not run.
"""
COLUMNS = ("kind", "jobs", "cannot run", "first", "why")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("target", metavar="TARGET", help="your registry, as MODULE:ATTRIBUTE")
    parser.add_argument("--app-dir", type=Path, metavar="FOLDER", help="where to import it from [default: the current directory]")
    parser.add_argument("--against", dest="database_url", metavar="URL", help="the same as --database")
    parser.add_argument("--most", type=whole, default=MOST, metavar="N", help=f"how many jobs to look at [default: {MOST}]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    settings.add_database(parser)


def main(options: argparse.Namespace) -> int:
    """Look at the jobs, and tell of those that could not be run."""
    config = settings.load(options)
    tell_app(config)
    kinds = {kind: worker.kind for kind, worker in app.load(options.target, options.app_dir).workers.items()}
    with opened(config) as connection:
        checked = check_jobs(connection, kinds, options.most)
    if options.json:
        output.json(checked)
    else:
        _tell(checked, options.target)
    return 1 if checked.misfits else 0


def _tell(checked: Checked, target: str) -> None:
    rows = [(misfit.kind, misfit.jobs, misfit.misfits, misfit.sample, misfit.reason) for misfit in checked.misfits]
    if rows:
        output.table(COLUMNS, rows)
    extent = f"{checked.looked_at} jobs" if checked.whole else f"the oldest {checked.looked_at} jobs; --most looks at more"
    bad = sum(misfit.misfits for misfit in checked.misfits)
    output.note(f"looked at {extent}: {target} could run {'all' if not bad else f'all but {bad}'} of them")

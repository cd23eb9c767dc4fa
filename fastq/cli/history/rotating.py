"""`fastq jobs rotate-keys`: encrypt the args of a kind's jobs anew, with the newest key.

Runs in the main thread of the command, and keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastq.admin.sealed.rotation import rotate_keys
from fastq.cli.terminal import output

if TYPE_CHECKING:
    import argparse

    from fastq.admin.sealed.rows import Rotated
    from fastq.postgres.db import Connection


def rotate(connection: Connection, options: argparse.Namespace) -> int:
    """Rotate, and tell how many jobs that were."""
    told = rotate_keys(connection, options.kind, archive=options.archive)
    if options.json:
        output.json(told)
    else:
        _tell(told)
    return 1 if told.left or told.unreadable else 0


def _tell(told: Rotated) -> None:
    finished = ""
    if told.archived is not None:
        finished = f"; and {output.plural(told.archived, 'row')} of the archive, {told.dead} of `fastq dead`"
    done = f"{output.plural(told.jobs, 'job')} of kind '{told.kind}' encrypted anew, with the key '{told.key}'{finished}"
    output.out(done)
    if told.left:
        output.note(f"{output.plural(told.left, 'job')} ran or changed meanwhile: do it once more when they have ended")
    if told.unreadable:
        output.note(f"{output.plural(told.unreadable, 'job')} cannot be opened, the first is {told.sample}: {told.reason}")
    for key, rows in sorted(told.remaining.items()):
        output.out(f"still encrypted with the key '{key}': {output.plural(rows, 'row')}")
    if told.archived is not None and not (told.jobs or told.archived or told.dead or told.remaining):
        output.out(f"no row of kind '{told.kind}' is encrypted with another key")

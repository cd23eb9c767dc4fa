"""Preloaded by the fork server: import the app once for all worker processes, then freeze.

Runs at import, in the fork server's only thread, before any fork; that import is the purpose of this module and nothing else
imports it. It keeps nothing of its own. All children share the modules that it loads: `gc.freeze` moves all objects where the
collector does not touch them, so their pages stay shared. A failure is silent here: the child imports the app again and reports
it.
"""

from __future__ import annotations

import gc
import signal
from contextlib import suppress
from pathlib import Path

from setproctitle import setproctitle, setthreadtitle

import fastq.work.process  # noqa: F401 - shared by all children
from fastq import app
from fastq.environment import fork_server_settings
from fastq.sql.statements import read_statements
from fastq.work.shared.forks import die_with_parent

setproctitle("fastq: fork server")
# The title is the kernel's name of the process, too. Before a fork Python (3.12 and later) counts this process's threads by
# splitting /proc/self/stat at blanks: one in the name makes it read another number, and warn of threads that are not there.
setthreadtitle("fastq-fork")


def ignore_stops() -> None:
    """Ignore signals that stop a host: a service manager or terminal signals the whole group, and children die with this process.

    Only the supervisor's end may end it. Children hold the pipe for that too, and one of them may be stuck.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


ignore_stops()
die_with_parent()
read_statements()
gc.disable()  # no holes in pages that will be shared
with suppress(BaseException):
    target, app_dir = fork_server_settings()
    if target:
        app.load(target, Path(app_dir) if app_dir else None)
ignore_stops()  # again: the app may have set handlers of its own
gc.collect()
gc.freeze()
gc.enable()

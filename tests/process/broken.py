"""An application that can be imported by the command and by nobody else."""

from setproctitle import getproctitle

from tests.process.jobs import registry as registry  # noqa: PLC0414 - what the command looks for

if getproctitle().startswith("fastq: "):
    raise RuntimeError("not in a worker process")

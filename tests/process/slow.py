"""An application whose import takes the fork server longer than anybody waits."""

import time

from setproctitle import getproctitle

from tests.process.jobs import registry as registry  # noqa: PLC0414 - what the command looks for

if getproctitle() == "fastq: fork server":
    time.sleep(60)

"""An application whose supervisor may have few files open: by the soft limit, which it may raise, or by the hard one."""

import os
import resource

from setproctitle import getproctitle

from tests.process.jobs import registry as registry  # noqa: PLC0414 - what the command looks for

FEW = 48  # enough for the supervisor and some processes

if not getproctitle().startswith("fastq: "):  # neither in the fork server nor in a worker process
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if os.environ.get("LIMIT") == "soft" else FEW
    resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, hard))

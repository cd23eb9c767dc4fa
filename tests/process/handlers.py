"""An application that handles signals while it is imported, as web servers and some libraries do."""

import os
import signal

from tests.process.jobs import registry as registry  # noqa: PLC0414 - what the command looks for

for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: os._exit(1))

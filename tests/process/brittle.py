"""An application that breaks a thread of its supervisor when the file `break` appears beside the witness."""

import os
import threading
import time
from pathlib import Path

from setproctitle import getproctitle

from tests.process.jobs import registry as registry  # noqa: PLC0414 - what the command looks for

BREAK = Path(os.environ.get("WITNESS", os.devnull)).with_name("break")


def wait_and_break() -> None:
    """End as no thread of the supervisor should."""
    while not BREAK.exists():
        time.sleep(0.01)
    raise ArithmeticError("nobody expected that")


if not getproctitle().startswith("fastq: "):  # neither in the fork server nor in a worker process
    threading.excepthook = lambda args: print("told:", args.exc_value)  # the program's own, for its error tracker
    threading.Thread(target=wait_and_break, name="fastq brittle", daemon=True).start()

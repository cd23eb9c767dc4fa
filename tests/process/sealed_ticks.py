"""The application with encrypted args, with a periodic job of them."""

from tests.process.sealed import registry as registry  # noqa: PLC0414 - what the command looks for
from tests.process.sealed import with_ticks

with_ticks()

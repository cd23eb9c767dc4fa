"""The turns of a host's processes: a turn is a lock on a byte of the board's file.

Taken and ended by the producers' threads of worker processes. The kernel frees a turn when its holder dies, and a process holds
it as a whole: one thread of it alone may take turns. It deliberately waits for nobody.
"""

from __future__ import annotations

import fcntl


def take(fd: int, byte: int) -> bool:
    """Take a turn if no other process has it."""
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except OSError:
        return False
    return True


def end(fd: int, byte: int) -> None:
    """Give a turn back."""
    fcntl.lockf(fd, fcntl.LOCK_UN, 1, byte)

"""Read and write files in a folder that another user may write to as well, without being led elsewhere by him.

Used by embedded.py alone, in the main thread of a command without a database of its own, and of tests. The danger is root's: it
starts an embedded Postgres as `nobody` and has to write into that user's folder, where a link in the place of a file would have
root overwrite, read or give away the target of the link.

Invariants: a folder is opened once, and its owner looked at; names are looked up in the opened folder, and no link is followed.
Only a plain file of the folder's owner is read. Only a new file is written, which then takes the name of the old one, be that a
file or a link. The functions keep nothing open but a descriptor that they return. They deliberately know nothing of Postgres.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fastq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST = 2**20
"""Bytes of a file that are read at most: a log may have grown; of the others each is a few kilobytes."""


class User(NamedTuple):
    """The owner of the files."""

    uid: int
    gid: int


@contextmanager
def opened(folder: Path, *owners: int) -> Iterator[int]:
    """Give the descriptor of a folder that belongs to one of the owners."""
    try:
        descriptor = os.open(folder, _FOLDER)
    except NotADirectoryError:
        raise ConfigError(f"{folder}: expected a folder, found a file or a link: remove it, or choose another place") from None
    try:
        found = os.fstat(descriptor).st_uid
        if found not in owners:
            raise ConfigError(
                f"{folder} belongs to uid {found}, expected {' or '.join(f'uid {uid}' for uid in sorted(set(owners)))}: "
                "choose another folder, or run as the user that made it"
            )
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def ours(folder: Path) -> Iterator[int]:
    """Give the descriptor of a folder in which nobody else but root may make and remove files."""
    uid = os.geteuid()
    with opened(folder, uid, 0) as place:
        mode = os.fstat(place).st_mode
        if mode & (stat.S_IWOTH if uid else stat.S_IWOTH | stat.S_IWGRP):  # a user's own group is often his alone
            raise ConfigError(f"{folder} is open to writers (mode {mode & 0o777:o}): give --data-dir a folder of its own")
        yield place


def read(folder: Path, name: str, owner: User, start: int = 0) -> bytes:
    """Return the bytes of a file of the folder from an offset on; FileNotFoundError if there is none."""
    with opened(folder, owner.uid) as place:
        try:
            # Not blocking: to open a pipe that stands in the place of the file would never return.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _refusal(folder / name, owner) from error
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != owner.uid:
                raise _refusal(folder / name, owner)
            file.seek(start)
            return file.read(_LONGEST)


def size(folder: Path, name: str, owner: User) -> int:
    """Return the size of the file or link of this name in the folder; 0 if there is none."""
    with opened(folder, owner.uid) as place:
        try:
            return os.stat(name, dir_fd=place, follow_symlinks=False).st_size
        except FileNotFoundError:
            return 0


def write(folder: Path, name: str, content: bytes, owner: User) -> None:
    """Put a new file of the owner's in the place of the file or link of this name."""
    with opened(folder, owner.uid) as place:
        scratch = f"{name}.{secrets.token_hex(4)}"
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place)
        with os.fdopen(descriptor, "wb") as file:
            if owner.uid != os.geteuid():
                os.fchown(descriptor, owner.uid, owner.gid)
            file.write(content)
        os.rename(scratch, name, src_dir_fd=place, dst_dir_fd=place)


def lockable(place: int, name: str) -> int:
    """Open a file of ours in a folder of ours, for locks that nobody else may hold."""
    descriptor = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=place)
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)  # one that an earlier version made was open to all
        return descriptor
    os.close(descriptor)
    raise ConfigError(f"the file '{name}' for locks belongs to somebody else: remove it, or choose another folder")


def _refusal(path: Path, owner: User) -> ConfigError:
    return ConfigError(
        f"{path}: expected a plain file of uid {owner.uid}, found a link or another user's file: see where it comes from"
    )

"""A server with many jobs in a folder that stays, so that it is filled once and asked many questions.

`ground.json` in the folder says how many jobs were asked for and how far the filling has come. While it fills, the server
writes nothing twice: no fsync, and no WAL for tables that are filled in the transaction that empties them. While questions are
asked it runs as in production. Nothing of it is for data that anybody needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fastq.config import Config
from fastq.postgres import db, embedded

FILLING = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "8GB",
    "shared_buffers": "1GB",
    "maintenance_work_mem": "512MB",
    "autovacuum": "off",
}
ASKED = {"shared_buffers": "1GB", "max_wal_size": "4GB"}
"""Settings of the server while it is filled, and while it is asked; all else is the embedded server's."""


@dataclass
class Ground:
    """A folder with its numbers. `now` is when the newest of the finished jobs ended."""

    folder: Path
    living: int
    finished: int
    days: int
    now: datetime
    filled: list[str] = field(default_factory=list)
    version: int = 18

    @property
    def first_day(self) -> datetime:
        """Return when the oldest of the finished jobs ended."""
        return datetime(self.now.year, self.now.month, self.now.day, tzinfo=UTC) - timedelta(days=self.days - 1)

    @property
    def step(self) -> float:
        """Return the seconds between two finished jobs."""
        return (self.now - self.first_day).total_seconds() / self.finished

    @property
    def late(self) -> tuple[int, int, int]:
        """Return how many jobs are enqueued in three days, a day and an hour: by so many places some of them end late."""
        most, day, hour = (max(1, round(seconds / self.step / 1000)) * 1000 for seconds in (3 * 86_400, 86_400, 3_600))
        return most, day, hour

    def id_of(self, number: int) -> int:
        """Return the id of a finished job that was not late: each tenth id is left to living jobs that have waited for long."""
        place = number + self.late[0]
        return place + (place - 1) // 9

    @property
    def newest_finished(self) -> int:
        """Return the largest id of a finished job."""
        return self.id_of(self.finished)

    def note(self, piece: str) -> None:
        """Note that a piece is filled."""
        self.filled.append(piece)
        told = asdict(self) | {"folder": str(self.folder), "now": self.now.isoformat()}
        (self.folder / "ground.json").write_text(json.dumps(told))

    @contextmanager
    def serving(self, *, filling: bool = False) -> Iterator[Config]:
        """Run the server, and give a configuration for it."""
        with embedded.start(self.folder, self.version, FILLING if filling else ASKED) as server:
            yield replace(Config.load(database_url=server.url), log_level="error")


def opened(folder: Path, living: int, finished: int, days: int) -> Ground:
    """Return the ground of a folder, as it was begun there, or a new one."""
    path = folder / "ground.json"
    if path.exists():
        told = json.loads(path.read_text())
        return Ground(**told | {"folder": folder, "now": datetime.fromisoformat(told["now"])})
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o711)  # root's server runs as another user, who must pass
    return Ground(folder, living, finished, days, datetime.now(UTC))


def session(config: Config) -> db.Connection:
    """Open a session that nothing ends and that plans as it likes."""
    return db.connect(config.database_url, role="bench", schema=config.schema, pinned=False, prepare=False, timeout=3_600.0)

# Made by tools/twins.py from enqueue/operate/signalling_async.py: change that file, then run `make twins`.
"""Send signals to jobs, and look at the steps that they have done: methods of a client.

A base class of `Client` (client.py), which makes and owns the settings and the sessions that are used here; this
class keeps no state. Its methods run in the caller's thread.

`AsyncSignalling` (signalling_async.py) is the same part of `AsyncClient`, and the source of this one.

Invariant: the first signal of a name is the one that the job finds, whether it comes before or after the job waits for it. It
deliberately waits for nobody: whether the job takes the signal up is the job's own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from fastq.args.meta import in_ascii
from fastq.errors import OptionError, StepError
from fastq.steps import values
from fastq.steps.attempt import named
from fastq.steps.shown import StepRow, step_of

if TYPE_CHECKING:
    from fastq.adapters.conn import Conn
    from fastq.adapters.library import Rows
    from fastq.enqueue.settings import Settings


class Signalling:
    """The part of a client that is about the steps of jobs."""

    _settings: Settings

    def signal(self, job_id: SupportsIndex, name: str, value: Any = None, *, conn: Conn | None = None) -> bool:
        """Send a job a signal, which its `job.wait_for(name)` returns; True if it is the first of that name.

        False if the job has had one of that name, which stays; if it has ended, or does not exist. It may come before the job
        waits for it. With `conn` it is sent when that transaction commits.
        """
        return self._signalled(job_id, name, value, conn) == "sent"

    def steps(self, job_id: SupportsIndex, *, conn: Conn | None = None) -> list[StepRow]:
        """Return the records of a job's steps, oldest first: what it has done, its cursors, sleeps, waits and signals."""
        number = self._settings.number(job_id)
        if number is None:
            return []
        return [step_of(row) for row in self._rows(self._settings.text("step_list"), (number,), conn)]

    def _signalled(self, job_id: SupportsIndex, name: str, value: Any, conn: Conn | None) -> str:
        """Send a signal, and say what became of it."""
        number = self._settings.number(job_id)
        try:
            checked, text = named(f"signal {name!r}", name), values.written(f"signal {name!r}", value)
        except StepError as error:
            raise OptionError(str(error)) from None
        if number is None:
            return "missing"
        [(outcome, *_)] = self._hinting(self._settings.text("job_signal"), (number, checked, in_ascii(text)), conn)
        return str(outcome)

    def _rows(self, text: str, parameters: tuple[object, ...], conn: Conn | None) -> Rows:
        """Run a statement that reads."""
        raise NotImplementedError

    def _hinting(self, text: str, values: tuple[object, ...], conn: Conn | None) -> Rows:
        """Run a statement that notifies."""
        raise NotImplementedError

"""Shared memory of one host, for its processes about each other, and for their supervisor when one of them dies.

The supervisor makes it (memory or an unlinked file, handed down by descriptor, so it has no name that anybody else could open);
each worker process maps it. Everything is a 64-bit integer, written whole, so a reader never sees half a value.

    one cursor per queue     frontier, low-water mark, re-scan ... of priority 1-4.  Written by the process that has the turn.
    one more such set        of the looks at all queues at once (work/cursor/peeks.py).  Written by the process that makes one.
    one desk per process     written by that process alone, once the supervisor has wiped it; read by the supervisor, above all
                             after the death of the process:
        sessions             its backends' pids in Postgres, to end them before its jobs are looked for
        kill after           monotonic time by which its watchdog must have ticked again (0: it does not matter)
        ticked               monotonic time of its watchdog's last tick
        left                 whether its exit code is its own: a job may end its process with any
        held, pss            how many jobs it has, waiting, executing and unwritten, and its share of memory: for people
        stands               under which name it stands for the leases of singletons, to release them after its death
        unanswered claim     its number, queue and lowest seq of the claim under way: it may still commit
        one lane per queue   a ring of the ids claimed lately, and per executor slot the id that it executes (0: none), the
        and mode             timeout of that job, and the last one that it executed before it came to rest
        cells                the jobs that are gathered into bundles, of which a slot executes many at once (cells.py)

Every claimed job is in a slot or in the ring until its completion is written, also one that ran long, has ended and waits in the
outbox. Only the producer adds to the ring (the main thread of a broken process marks ended ids in it, just before it exits).
Before newer ids overwrite the id of an executing job, the producer adds that id again (`claimed`), so that executors do nothing
for it. See RING_TIMES.
The turn of a queue is a lock on a byte of the file (work/cursor/cursor.py). The board deliberately holds no
pointer, no length that a reader trusts without a bound, and nothing that must survive the supervisor.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from fastq.board.cells import Cells
from fastq.board.cursor_words import COUNT, CursorWords
from fastq.errors import FastqError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Words of a desk, which the supervisor wipes before a process sits down at it.
PROCESS = 0  # the process's number, 0 when it recycles and has left its desk; by its main thread, as KILL_AFTER and TICKED
ENDED = 1  # outcomes written so far; by the completer
CLAIM = 2  # the claim that was sent, while its jobs are in no ring yet, 0: none; by the producer, as the next two
CLAIM_QUEUE = 3  # its queue's number
CLAIM_AFTER = 4  # a seq below everything that it can take
KILL_AFTER = 5  # monotonic ns after which the process is stuck, unless it ticks before (0: nothing limits it)
TICKED = 6  # monotonic ns of the watchdog's last tick (0: the process is not there yet)
SESSIONS = range(7, 11)  # backend pids, one each for producer, completer and the hand-back at the end; and the next
CUT_SESSION = SESSIONS[3]  # that the producer sent the unanswered claim on, when it has another (0: none)
LEFT = 11  # 1: the exit code that follows is the process's own, and not that of a job which ended it; by its main thread
STANDS = 12  # the random part of the identity under which it stands for leases of singletons (0: it does not); as LEFT
HELD = 13  # jobs that were claimed and are not written; by its main thread, as the next
PSS = 14  # bytes of memory, pages that processes share by share; 0: not known
DESK_WORDS = 16  # with one to spare

# Words of a lane, before its slots and its ring; by the producer.
HEAD = 0  # how many ids have ever been put into the ring
CARRIED = 1  # HEAD when the ids of the slots were last put in again
LANE_WORDS = 8  # with six to spare

RING_TIMES = 2
"""A ring holds 2 U ids. U is the most jobs that a process may have claimed and not yet written: four times a batch and one for
each executor. An executing job's id is put in again every U/4 ids (CARRY_SHARE). After its last entry come at most U/4 ids until
the job ends, U/2 of jobs that were in the inbox behind it (two claims may be held ready), and U of jobs that are unwritten too.
Inbox and outbox keep the order, so there are no others: the id is never pushed out before the job is written."""

RING_CARRIES = 8
"""Room in a ring for ids put in again, as a multiple of the slots: the ids of the slots come so often while 2 U ids pass."""

CARRY_SHARE = 4
"""The part of U after which the ids of the slots are put in again: more than a batch, the most that one claim brings."""


BLOCK = 1 << 20
"""Bytes that are written at once to take room on a disk."""


class Board:
    """The mapped file. Queues are numbered by their order in the configuration.

    The main thread of the supervisor, and of each worker process, makes one of its own; any thread there may read it. Nothing but
    the words ever changes.
    """

    def __init__(self, fd: int, concurrency: Sequence[int], processes: int, ring: int, modes: int = 1) -> None:
        self.fd = fd  # never closed while mapped: closing any descriptor of the file would drop this process's locks
        self.ring = ring  # jobs of a process that may be claimed and unwritten
        self.concurrency = list(concurrency)
        self._modes = modes  # ways of executing; all processes that map the file must give the same values of all of these
        self._processes = processes
        self._lane_words = [LANE_WORDS + 3 * slots + _ring_words(ring, slots) for slots in self.concurrency]
        self._desk_words = DESK_WORDS + modes * sum(self._lane_words) + Cells.words_for(ring)
        self._lanes_at = [DESK_WORDS]  # by queue, from the start of a desk on
        for words in self._lane_words:
            self._lanes_at.append(self._lanes_at[-1] + modes * words)
        self._desks_at = COUNT * (len(self.concurrency) + 1)
        size = 8 * (self._desks_at + self._desk_words * processes)
        if os.fstat(fd).st_size < size:
            os.ftruncate(fd, size)
        self._map = mmap.mmap(fd, size)
        self.words = memoryview(self._map).cast("q")
        self._cells: dict[int, Cells] = {}  # by process; the main thread's, and the recovery's

    @classmethod
    def make(cls, concurrency: Sequence[int], processes: int, ring: int, modes: int = 1) -> Board:
        """Make a board in memory or, where there is no such call, on a file that has no name."""
        try:
            memory = _memory()
            if memory is not None:
                return cls(memory, concurrency, processes, ring, modes)
            with tempfile.TemporaryFile(prefix="fastq-board-") as file:
                made = cls(os.dup(file.fileno()), concurrency, processes, ring, modes)
            made.take_room()
        except OSError as error:
            raise FastqError(f"no room for the board, which the processes of this host share: {error}") from error
        return made

    def take_room(self) -> None:
        """Write the whole file, so that a full disk is an error now: a page that finds no room later is a SIGBUS."""
        size = self.words.nbytes
        written = 0
        while written < size:
            written += os.pwrite(self.fd, bytes(min(size - written, BLOCK)), written)

    def cursor(self, queue: int) -> CursorWords:
        """Return the words of a queue's cursor."""
        return CursorWords.at(self.words[COUNT * queue : COUNT * (queue + 1)])

    def peeks(self) -> CursorWords:
        """Return the words of the looks at all queues at once."""
        return self.cursor(len(self.concurrency))

    def desk(self, process: int) -> memoryview:
        """Return the words of a process's desk, without its lanes."""
        at = self._desks_at + self._desk_words * process
        return self.words[at : at + DESK_WORDS]

    def lane(self, process: int, queue: int, mode: int) -> LaneBoard:
        """Return one lane of a process's desk; modes are numbered as in work/modes.py."""
        assert 0 <= mode < self._modes, f"a board for {self._modes} modes has no lane of mode {mode}"
        at = self._desks_at + self._desk_words * process + self._lanes_at[queue] + mode * self._lane_words[queue]
        words = self.words[at : at + self._lane_words[queue]]
        return LaneBoard(words, self.concurrency[queue], self.ring, self.cells(process))

    def lanes(self, process: int, queue: int) -> list[LaneBoard]:
        """Return the lanes of a process for one queue, one for each mode."""
        return [self.lane(process, queue, mode) for mode in range(self._modes)]

    def all_lanes(self, process: int) -> list[LaneBoard]:
        """Return all lanes of a process's desk."""
        return [lane for queue in range(len(self.concurrency)) for lane in self.lanes(process, queue)]

    def cells(self, process: int) -> Cells:
        """Return the cells of a process's desk, for the jobs of bundles: one object, for its lanes share the lock."""
        if process not in self._cells:
            end = self._desks_at + self._desk_words * (process + 1)
            self._cells[process] = Cells(self.words[end - Cells.words_for(self.ring) : end], self.ring)
        return self._cells[process]

    def executing(self) -> int:
        """Count the jobs that the processes of this host execute, a bundle as one."""
        return sum(self.executing_at(desk) for desk in range(self._processes))

    def executing_at(self, process: int) -> int:
        """Count the jobs that one process executes, a bundle as one.

        A host may have thousands of lanes, and this is asked while it idles: so no object is made of any.
        """
        words, start = self.words, self._desks_at + self._desk_words * process
        if not words[start + TICKED]:  # nobody has sat there since it was wiped
            return 0
        count = 0
        for at, size, slots in zip(self._lanes_at, self._lane_words, self.concurrency, strict=False):
            for lane in range(start + at, start + at + self._modes * size, size):
                slot = lane + LANE_WORDS
                count += sum(word > 0 for word in words[slot : slot + slots].tolist()) if slots > 1 else words[slot] > 0
        return count

    def overdue(self, process: int, now: int, spare: int) -> bool:
        """Tell whether a process has not ticked for longer than a job that it executes may take, and `spare` ns more.

        The watchdog tells how long the jobs may take that it has seen; one that started after its last tick is seen here.
        """
        desk = self.desk(process)
        if not desk[TICKED] or now - desk[TICKED] < spare:  # 0: it is still starting
            return False
        lanes = self.all_lanes(process)
        limits = [limit for lane in lanes for word, limit in zip(lane.slots, lane.limits, strict=True) if word > 0]
        seen = bool(limits) and 0 < desk[KILL_AFTER] < now
        return seen or any(limit and now > desk[TICKED] + limit + spare for limit in limits)

    def silent(self, process: int, now: int, limit: int) -> bool:
        """Tell whether a process that stands for singletons has not ticked for longer than `limit` ns."""
        desk = self.desk(process)
        return bool(desk[STANDS] and desk[PROCESS]) and now - desk[TICKED] > limit

    def clear(self, process: int) -> None:
        """Wipe a desk for the next process that sits at it."""
        _wipe(self.desk(process))
        for lane in self.all_lanes(process):
            lane.clear()
        self.cells(process).clear()


class LaneBoard:
    """The part of a desk for one lane: the ids that it claimed lately, and the job in each executor slot.

    The thread of a slot writes the three words of its slot; the producer's thread writes the ring.
    """

    def __init__(self, words: memoryview, slots: int, ring: int, cells: Cells) -> None:
        self.ring = ring  # jobs of the process that may be claimed and unwritten
        self.cells = cells  # of the process, for bundles of any lane
        self._head = words[:LANE_WORDS]
        self.slots = words[LANE_WORDS : LANE_WORDS + slots]
        self.limits = words[LANE_WORDS + slots : LANE_WORDS + 2 * slots]  # timeout in ns by slot, 0: none
        self.rested = words[LANE_WORDS + 2 * slots : LANE_WORDS + 3 * slots]  # id by slot, of the last job before a rest; 0: none
        self._size = _ring_words(ring, slots)
        self._ring = words[LANE_WORDS + 3 * slots : LANE_WORDS + 3 * slots + self._size]
        self._carry_after = ring // CARRY_SHARE

    def clear(self) -> None:
        """Wipe everything but the ring: it is read up to the head, and its untouched pages need no memory."""
        for words in (self._head, self.slots, self.limits, self.rested):
            _wipe(words)

    def claimed(self, ids: array[int]) -> None:
        """Add ids, never more at once than may be unwritten; before them, when it is time, those that execute."""
        head = self._head
        if head[HEAD] + len(ids) - head[CARRIED] > self._carry_after:
            self._put(array("q", [word for word in self.slots if word]))
            head[CARRIED] = head[HEAD]
        self._put(ids)

    def _put(self, ids: array[int]) -> None:
        head = self._head[HEAD]
        at = head % self._size
        first = min(len(ids), self._size - at)
        self._ring[at : at + first] = ids[:first]
        if first < len(ids):
            self._ring[: len(ids) - first] = ids[first:]
        self._head[HEAD] = head + len(ids)

    def outstanding(self) -> tuple[list[int], set[int]]:
        """Return all ids that may still be held, and those of them that were executing."""
        executing = {word for word in self.slots if word}
        return list({*map(abs, self._held()), *executing}), executing

    def ended(self, *, told: bool) -> set[int]:
        """Return ids that have ended, and may have been written: all that the process noted, or else those of slots at rest."""
        if told:
            return {-word for word in self._held() if word < 0}
        return {last for last, word in zip(self.rested, self.slots, strict=True) if last and not word}

    def tell_ended(self, ids: set[int]) -> None:
        """Note in the ring, by the sign, that these have ended; the main thread of a broken process does, before its end."""
        for at, word in enumerate(self._ring[: min(self._head[HEAD], self._size)].tolist()):
            if word in ids:
                self._ring[at] = -word

    def _held(self) -> list[int]:
        return self._ring[: min(self._head[HEAD], self._size)].tolist()


def _memory() -> int | None:
    """Return the descriptor of memory that nobody else can open; None where there is none, on macOS or in a sandbox."""
    with suppress(AttributeError, OSError):
        return os.memfd_create("fastq board")
    return None


def _wipe(words: memoryview) -> None:
    words[:] = memoryview(bytes(words.nbytes)).cast("q")


def _ring_words(ring: int, slots: int) -> int:
    return RING_TIMES * ring + RING_CARRIES * slots

"""The statements by which unique jobs are enqueued: each follows from the answer to the one before.

Runs in the enqueuing thread or event loop, on plain values; the clients' sessions run the calls that `steps` asks for, in one
transaction. A `Uniques` and its wishes belong to the client's method that makes it. Elements of a call that have the same key are
folded into one while it is made; after that `steps` alone changes the wishes. A first statement enqueues each job that gets its
key, and tells which job holds the key of each other. The option `then` (args/unique.py) says how to go on with such a holder: a
statement changes it, or the first one is run once more, with leave to take the key away from it.

Invariant: a job is enqueued only in the statement that gives it its key. It deliberately takes no lock on a key that another job
holds: two programs that meet the same one do not wait for each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fastq.enqueue.calls import RECORD, Call, Row, call_of, wakes_of
from fastq.enqueue.items import Enqueued
from fastq.errors import DatabaseUnavailable, DuplicateJob
from fastq.events import emit
from fastq.jobs.spec import JobSpec
from fastq.postgres import hints

Rows = Sequence[Sequence[Any]]
Steps = Generator[Call, Rows, None]

ROUNDS = 1_000
"""Statements for one group of jobs: each one more says that another program was faster with a key. A guess; ten are seen at most
where 64 programs enqueue the same key and its jobs end at once (tests/db/test_unique_races.py)."""

CHANGES = ("replace", "debounce", "collect")
"""The values of `then` that change a job which has not started."""

DONE = {"replace": "replaced", "debounce": "debounced", "collect": "collected"}

_read_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


@dataclass(slots=True)
class Wish:
    """A job to enqueue, for the elements of the call that are folded into it."""

    spec: JobSpec
    text: bytes
    positions: list[int]
    over: int | None = None  # the job from which the key may be taken: it was cancelled, or is full
    told: Enqueued | None = None
    holder: Sequence[Any] = field(default=())  # the last answer

    @property
    def then(self) -> str:
        """Say how to go on if another job holds the key."""
        return self.spec.asked.unique.then if self.spec.asked is not None else "keep"


class Uniques:
    """The jobs of one call."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.count = len(rows)
        self.waves: list[list[Wish]] = []  # a key is in each of them at most once
        self.wakes: set[str] = set()
        self._fold(rows)

    @property
    def in_one_step(self) -> bool:
        """Tell whether it takes one statement that changes anything: then it needs no transaction around it."""
        return self.count == 1 and self.waves[0][0].then in ("keep", "raise")

    def told(self) -> list[Enqueued]:
        """Return the results, in the order in which the jobs were given, and report those that made no job."""
        found: dict[int, Enqueued] = {}
        for wish in (wish for wave in self.waves for wish in wave):
            assert wish.told is not None  # `steps` has come to its end
            first, *others = wish.positions
            found[first] = wish.told
            why = DONE.get(wish.then, "kept")
            found |= {position: Enqueued.held(wish.told, why, wish.holder[2]) for position in others}
            for told in (found[position] for position in wish.positions if not found[position].new):
                _report(wish, told, told.why, told.state)
        return [found[position] for position in range(self.count)]

    def steps(self) -> Steps:
        """Ask for one statement after the other, until each job is enqueued or told of; DuplicateJob where one is not to be."""
        try:
            yield from self._steps()
        except DuplicateJob:  # the transaction may be the caller's, and go on
            made = [str(int(wish.told)) for wave in self.waves for wish in wave if wish.told is not None and wish.told.new]
            if made:
                yield Call("unique_undo", (RECORD.join(made),), set())
            raise

    def _steps(self) -> Steps:
        for wave in self.waves:
            left = wave
            for _ in range(ROUNDS):
                if not left:
                    break
                yield from self._round(left)
                left = [wish for wish in left if wish.told is None]
            else:
                raise DatabaseUnavailable(
                    f"a unique job was not enqueued: other programs were faster {ROUNDS} times with its key "
                    f"{_key_of(left[0]).hex()}"
                )

    def _round(self, wishes: list[Wish]) -> Steps:
        overs = RECORD.join(["" if wish.over is None else str(wish.over) for wish in wishes])
        rows = yield call_of("job_enqueue_unique", _rows(wishes), overs)
        ended: list[int] = []
        for wish, row in zip(wishes, rows, strict=True):
            wish.holder = row
            job_id, fate, _ = row
            if fate == "new":
                wish.told = Enqueued.instead_of(wish.over if wish.then == "cancel" else None, job_id)
                self.wakes |= wakes_of(wish.spec)
            elif fate == "ended":
                ended.append(job_id)
        if ended:
            settled = yield Call("unique_settle", (RECORD.join(map(str, ended)),), set())
            if not settled[0][0]:  # they ended without success: their keys are held
                self._keep([wish for wish in wishes if wish.holder[1] == "ended"])
        held = [wish for wish in wishes if wish.holder[1] == "held"]
        self._keep([wish for wish in held if wish.then in ("keep", "raise") or wish.holder[2] is None])
        yield from self._cancel([wish for wish in held if wish.told is None and wish.then == "cancel"])
        yield from self._change([wish for wish in held if wish.told is None and wish.then in CHANGES])

    def _keep(self, wishes: list[Wish], why: str = "kept") -> None:
        for wish in wishes:
            holder, _, state = wish.holder
            if wish.then == "raise":
                _report(wish, holder, "raised", state)
                raise DuplicateJob(holder, state, position=wish.positions[0] if self.count > 1 else None)
            wish.told = Enqueued.held(holder, why, state)

    def _cancel(self, wishes: list[Wish]) -> Steps:
        """Cancel the holders; the next round takes their keys."""
        for wish in wishes:
            [(holder, _, outcome)] = yield Call("job_cancel", (wish.holder[0], None), set())
            if outcome in ("cancelled", "asked"):
                wish.over = holder
                self.wakes.add(hints.CANCEL.word)

    def _change(self, wishes: list[Wish]) -> Steps:
        """Change the holders that have not started; those that are full lose their keys in the next round."""
        if not wishes:
            return
        asked = [wish.spec.asked for wish in wishes if wish.spec.asked is not None]
        uniques = [each.unique for each in asked]
        rows = yield call_of(
            "unique_change",
            _rows(wishes),
            RECORD.join([str(wish.holder[0]) for wish in wishes]),
            RECORD.join([unique.then for unique in uniques]),
            RECORD.join(["" if unique.longest is None else repr(float(unique.longest)) for unique in uniques]),
            RECORD.join([each.into or "" for each in asked]),
            RECORD.join([str(unique.most) for unique in uniques]),
            RECORD.join([str(unique.most_bytes) for unique in uniques]),
        )
        for wish, (outcome, wake) in zip(wishes, rows, strict=True):
            if outcome == "changed":
                wish.told = Enqueued.held(wish.holder[0], DONE[wish.then], wish.holder[2])
                self.wakes |= {*wake.split(RECORD)} if wake is not None else set()
            elif outcome == "full" or (outcome == "other" and wish.then == "collect"):
                wish.over = wish.holder[0]
            elif outcome == "other":
                self._keep([wish])
            elif outcome == "started" and _until(wish) == "start":  # its key may be of another declaration
                wish.over = wish.holder[0]
            elif outcome == "started":
                self._keep([wish], "started")

    def _fold(self, rows: Sequence[Row]) -> None:
        """Have one wish for all elements with the same key, as far as they say the same; the others come in a later wave."""
        last: dict[bytes, tuple[int, Wish]] = {}
        for position, (spec, text) in enumerate(rows):
            wish, wave = Wish(spec, text, [position]), 0
            if spec.asked is not None:
                place, before = last.get(spec.asked.key, (-1, None))
                if before is not None and _folded(before, wish):
                    continue
                wave = place + 1
                last[spec.asked.key] = (wave, wish)
            while len(self.waves) <= wave:
                self.waves.append([])
            self.waves[wave].append(wish)


def _folded(before: Wish, wish: Wish) -> bool:
    """Put an element into that before it with the same key; False if the two do not go together."""
    assert before.spec.asked is not None  # they have a key
    assert wish.spec.asked is not None
    if before.spec.asked.unique != wish.spec.asked.unique or before.spec.kind != wish.spec.kind:
        return False
    if wish.then == "raise":
        raise DuplicateJob(None, None, position=wish.positions[0])
    fold: Callable[[Wish, Wish], bool] = _FOLDS.get(wish.then, _first)
    if not fold(before, wish):
        return False
    before.positions += wish.positions
    return True


def _first(_: Wish, __: Wish) -> bool:
    return True


def _last(before: Wish, wish: Wish) -> bool:
    before.spec, before.text = wish.spec, wish.text
    return True


def _both(before: Wish, wish: Wish) -> bool:
    asked = wish.spec.asked
    assert asked is not None  # it collects
    assert asked.into is not None
    fields, more = _read_fields(before.text), _read_fields(wish.text)
    if asked.into not in fields:  # of another type of the kind, with another name for it in JSON
        return False
    elements = [*_read_elements(fields[asked.into]), *_read_elements(more[asked.into])]
    text = msgspec.json.encode({**fields, asked.into: elements})
    if len(elements) > asked.unique.most or len(text) > asked.unique.most_bytes:
        return False
    before.text = text
    return True


_FOLDS: dict[str, Callable[[Wish, Wish], bool]] = {"replace": _last, "debounce": _last, "cancel": _last, "collect": _both}
"""Which of two elements with one key counts: the first, but where a later enqueue changes or ends the job of an earlier one."""


def _rows(wishes: list[Wish]) -> list[Row]:
    return [(wish.spec, wish.text) for wish in wishes]


def _until(wish: Wish) -> str:
    return wish.spec.asked.unique.held_until if wish.spec.asked is not None else ""


def _report(wish: Wish, holder: int, why: str, state: str | None) -> None:
    """Report that another job holds the key. In a transaction of the caller's that may still be undone."""
    emit("job.deduplicated", level=logging.DEBUG, kind=wish.spec.kind, id=int(holder), why=why, state=state)


def _key_of(wish: Wish) -> bytes:
    return wish.spec.asked.key if wish.spec.asked is not None else b""

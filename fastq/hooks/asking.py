"""Ask the hooks about a job that is about to be enqueued: they may change its options, and have values travel with it.

Runs in the enqueuing thread or event loop, before anything of the job is checked or sent. The hooks of the client are asked
first, then those of the job's kind; each sees the changes of those before it.

Invariant: a job of a kind and a client without hooks does not come here. The module deliberately knows nothing of statements: it
hands on options like those of a caller, which are checked as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastq.args.hook import Enqueuing, Hook
from fastq.jobs.spec import Options, check_names, merged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastq.args.kinds import Kind


def asked(
    hooks: Iterable[Hook], kind: Kind[Any], args: Any, options: Options, own: Options | None = None
) -> tuple[Options, str | None]:
    """Return the options of a job as its hooks want them, and the values that travel with it as JSON, None if there are none."""
    enqueuing = Enqueuing(kind.name, args, options if own is None else merged(options, own), kind.queue)
    for hook in {id(hook): hook for hook in (*hooks, *kind.asked)}.values():
        hook.enqueue(enqueuing)
    wanted = cast("Options", enqueuing.options)
    check_names(wanted)
    return wanted, enqueuing.in_json()

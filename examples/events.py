"""Events: another program hears what happens to payments, in all processes, as it happens.

fastq dev examples.events:registry            works the jobs; brings its own Postgres
python -m examples.events hear                hears events until Ctrl-C (in another terminal)
python -m examples.events                     enqueues some payments (in a third one)

On the command line: fastq events -f 'job.*' --kind pay.
"""

import sys
import time
from dataclasses import dataclass

from examples import database
from fastq import Args, Client, Discard, Job, Registry

registry = Registry()

MOST = 100


@dataclass
class PayArgs(Args, kind="pay"):
    order: int
    euros: int


@registry.worker
def pay(job: Job[PayArgs]) -> Discard | None:
    """Pay an order, unless it costs too much."""
    time.sleep(0.2)
    return Discard("too much") if job.args.euros > MOST else None


def hear(client: Client) -> None:
    """Print the ends of payments as they come."""
    with client.events("job.completed", "job.discarded", kinds=["pay"]) as events:
        for event in events:
            if event.dropped:
                print(f"{event.fields['count']} events were left out")
            else:
                print(
                    f"{event.at:%H:%M:%S} {event.name} {event.fields['id']} in {event.fields.get('ran', 0.0):.1f} s", flush=True
                )


def main() -> None:
    """Enqueue payments, or hear of their ends."""
    with Client(database.url()) as client:
        if sys.argv[1:] == ["hear"]:
            hear(client)
        else:
            client.enqueue_many([PayArgs(order=number, euros=40 * number) for number in range(1, 5)])


if __name__ == "__main__":
    main()

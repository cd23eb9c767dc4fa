"""The dashboard in an application: mounted, behind a password, with its jobs to look at.

python -m examples.dashboard                    enqueues some jobs, of which some will fail
fastq dev examples.dashboard:registry           works them; brings its own Postgres (in another terminal)
uvicorn examples.dashboard:app                  serves it (in a third): http://127.0.0.1:8000/ops/fastq/

The user is ada, the password lovelace. It takes the extra `web`: pip install 'fastq-jobs[web]'.
"""

import base64
import hmac
import time
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

from examples import database
from fastq import Args, Client, Job, Limit, Registry, Worker
from fastq.web import OPERATOR, Viewer, dashboard

registry = Registry()


@dataclass
class ThumbnailArgs(Args, kind="thumbnail", max_attempts=1, gates=[Limit("images", at_most=2)]):
    image: int


@registry.register
class ThumbnailWorker(Worker[ThumbnailArgs]):
    logs = True

    def work(self, job: Job[ThumbnailArgs]) -> int:
        print(f"image {job.args.image}")
        for part in range(1, 4):
            job.progress(part / 3, f"part {part} of 3")
            time.sleep(0.05)
        if job.args.image % 5 == 0:
            raise ValueError(f"image {job.args.image} has no pixels")
        return job.args.image * 1_000


def who(request: Request) -> Viewer:
    """Let in the one user that there is; an application has a session to ask, and no password in its code."""
    given = request.headers.get("authorization", "")
    if hmac.compare_digest(given, "Basic " + base64.b64encode(b"ada:lovelace").decode()):
        return Viewer("ada", OPERATOR)
    raise HTTPException(401, "user ada, password lovelace", {"WWW-Authenticate": "Basic realm=fastq"})


app = Starlette(routes=[Mount("/ops/fastq", dashboard(database.url(), auth=who, name="example", colour="violet"))])


def main() -> None:
    """Enqueue some jobs."""
    with Client(database.url()) as client:
        client.enqueue_many([ThumbnailArgs(number) for number in range(20)])


if __name__ == "__main__":
    main()

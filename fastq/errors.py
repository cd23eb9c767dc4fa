"""Name all errors that fastq raises.

    FastqError
    ├── ConfigError           a setting (flag, FASTQ_* variable) has a bad value
    ├── OptionError           an option of a kind or of one enqueue (queue, priority, tags ...) has a bad value
    ├── ArgsError             args that cannot be stored, or stored args that do not fit their type
    ├── DuplicateJob          another job holds the key of a unique one
    ├── JobNotFound           a job that is waited for never was, or is there no longer
    ├── JobFailed             the output is wanted of a job that was cancelled or discarded
    ├── ResultError           an output that does not fit the type that is declared for it
    ├── WorkflowError         a workflow is unknown, has ended, was cancelled, or has a step of that name
    ├── UnknownKind           a job of a kind without a worker here, or args of a class that names no kind
    ├── RegistryError         a worker that cannot be registered
    ├── MigrationError        the schema is missing, too old, too new, or could not be migrated
    ├── DatabaseUnavailable   no connection to Postgres, or it was lost and did not come back in time
    ├── LeaseError            a lease cannot be had as it was asked for
    └── LeaseLost             the caller acts for a term that has ended: a leader's, a singleton's

Plain values: any process and thread may raise them; the code that catches one owns it. Messages are lower case: the rule, the
value that broke it, where, and the remedy. `JobTimeout`, `JobCancelled` and `JobLost` (job.py) and `SingletonStopped`
(singleton.py) are not here: they interrupt the user's code and are outside `Exception`.
"""


class FastqError(Exception):
    """Catch everything that fastq raises on purpose."""


class ConfigError(FastqError):
    """A setting has a value that is not allowed."""


class OptionError(FastqError, ValueError):
    """An option of a kind or of one enqueue has a value that is not allowed."""


class ArgsError(FastqError, ValueError):
    """Args that cannot be stored, or stored args that do not fit their type.

    `field` is a path such as `strings[2].name`, empty when the whole is meant; `position` is the element of a batch.
    """

    def __init__(self, kind: str, reason: str, *, field: str = "", position: int | None = None) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason
        self.field = field
        self.position = position

    def __str__(self) -> str:
        """Say kind, position, field and reason in one line."""
        at = "" if self.position is None else f" at position {self.position}"
        field = f", field '{self.field}'" if self.field else ""
        return f"args of kind '{self.kind}'{at}{field}: {self.reason}"


class DuplicateJob(FastqError):
    """Another job holds the key of a unique job.

    `holder` is the id of that job, None if it is another one of the same call; `state` is its state, None if it has ended.
    `position` is the element of a batch.
    """

    def __init__(self, holder: int | None, state: str | None, *, position: int | None = None) -> None:
        super().__init__(holder, state)
        self.holder = holder
        self.state = state
        self.position = position

    def __str__(self) -> str:
        """Say which job it is."""
        at = "" if self.position is None else f"at position {self.position}: "
        if self.holder is None:
            return f"{at}an element before it has the same key, and there is to be one job of a key"
        return (
            f"{at}job {self.holder}{f' ({self.state})' if self.state else ''} holds the key, and there is to be one job of a key"
        )


class JobNotFound(FastqError, LookupError):
    """A job that is waited for: there is none with this id that others can see, or no longer."""

    def __init__(self, ids: list[int], *, in_transaction: bool = False) -> None:
        super().__init__(ids)
        self.ids = ids
        self.in_transaction = in_transaction

    def __str__(self) -> str:
        """Say which jobs, and why they may be missing."""
        which = f"job {self.ids[0]}" if len(self.ids) == 1 else f"{len(self.ids)} jobs, the first is {self.ids[0]}"
        if self.in_transaction:
            return (
                f"{which}: enqueued in a transaction of yours (conn=...) that has not committed, or was rolled back; a job that "
                "only its own transaction sees never starts: commit first, then wait"
            )
        return (
            f"{which}: there is none with this id, or no longer. It may have been deleted or pruned, have completed for a worker "
            "with archive = False, which leaves no row, or be enqueued in a transaction that has not committed"
        )


class JobFailed(FastqError):
    """The output is wanted of a job that was cancelled or discarded; `state` says which, `error` is its last error."""

    def __init__(self, job_id: int, kind: str, state: str, error: str | None) -> None:
        super().__init__(job_id, kind, state, error)
        self.job_id = job_id
        self.kind = kind
        self.state = state
        self.error = error

    def __str__(self) -> str:
        """Say how the job ended."""
        why = f": {self.error}" if self.error else ""
        return f"job {self.job_id} of kind '{self.kind}' has no output, it was {self.state}{why}"


class ResultError(FastqError, ValueError):
    """An output that does not fit the type that is declared for it."""

    def __init__(self, job_id: int, kind: str, result: object, reason: str) -> None:
        super().__init__(job_id, kind, result, reason)
        self.job_id = job_id
        self.kind = kind
        self.result = result
        self.reason = reason

    def __str__(self) -> str:
        """Say why."""
        name = self.result.__qualname__ if isinstance(self.result, type) else self.result
        return f"the output of job {self.job_id} of kind '{self.kind}' is no {name}: {self.reason}; output_json has it as it is"


class WorkflowError(FastqError):
    """A workflow cannot be changed or waited for: there is none, it has ended, it was cancelled, it has a step of that name."""


class StepError(FastqError):
    """A step of a job cannot be done as it is written: its name, its value, the place where it begins."""


class UnknownKind(FastqError):
    """A job of a kind without a worker here, or args of a class that names no kind."""


class RegistryError(FastqError):
    """A worker cannot be registered as it is."""


class MigrationError(FastqError):
    """The schema is missing, too old, too new, or could not be migrated."""


class DatabaseUnavailable(FastqError):
    """Postgres could not be reached, the connection was lost, or the server refused for want of a resource: it may pass later."""


class LeaseError(FastqError):
    """A lease cannot be had as it was asked for: its name, its ttl, its connection, queues that another domain maintains."""


class LeaseLost(FastqError):
    """The caller acts for a term that has ended."""

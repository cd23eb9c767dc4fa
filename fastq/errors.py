"""Name all errors that fastq raises.

    FastqError
    ├── ConfigError           a setting (flag, FASTQ_* variable) has a bad value
    ├── OptionError           an option of a kind or of one enqueue (queue, priority, tags ...) has a bad value
    ├── ArgsError             args that cannot be stored, or stored args that do not fit their type
    ├── DuplicateJob          another job holds the key of a unique one
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


class WorkflowError(FastqError):
    """A workflow cannot be changed or waited for: there is none, it has ended, it was cancelled, it has a step of that name."""


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

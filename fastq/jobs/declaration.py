"""Things that an application can declare in a registry: `Declaration`, of which each sort has a class.

Declarations are made and checked while the application is imported, in one thread, belong to its registry, and are only read
afterwards. Those of workers and of periodic jobs are in worker.py and periodic.py, that of singletons is here. A room that has
another sort of thing to declare derives a class and hands its objects to `Registry.declare`: the registry, app.py and `fastq run`
know nothing but the methods of the class.

Invariant: a registry holds a declaration only after its `check`. A class deliberately does not say how the thing is worked: the
room that works it asks the registry for the declarations of that class.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, ClassVar

from fastq.errors import RegistryError
from fastq.jobs.worker_faults import place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SINGLETON_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/\-]{0,126}")
"""No blanks: the name is part of a notification and of a line to a process."""


class Declaration:
    """One thing that an application declares, with the place in the user's file where that is written; a sort is a subclass."""

    noun: ClassVar[str]  # for messages: "singleton"
    heading: ClassVar[str] = ""  # of the line in which `fastq run` lists the names; empty: it lists none
    columns: ClassVar[tuple[str, ...]] = ()  # of the table that `fastq run` shows; empty: it shows none
    works: ClassVar[bool] = False  # True: a process has something to do because of it; an app needs one such declaration at least

    name: str  # no other of its sort in a registry has it
    also: Sequence[str] = ()  # further names by which the thing is found, such as former ones; nor has any other one of these
    place: str  # where it is declared, for messages

    @property
    def thing(self) -> Any:
        """Return the object by which others know it, such as the user's function or worker."""
        return self

    def check(self) -> None:
        """Refuse a mistake with a RegistryError that names the place and the remedy; the name is known to be new."""

    def twice(self, known: Declaration, name: str) -> str:
        """Make the message that a name is taken by another declaration, with the remedy."""
        return f"{self.noun} '{name}' is defined twice: {known.place} and {self.place}; rename or remove one"

    def row(self) -> tuple[str, ...]:
        """Return a row for the table of `fastq run`, a text for each of the columns."""
        return ()


class SingletonDeclaration(Declaration):
    """A function that runs on one process of the cluster at a time."""

    noun, heading, works = "singleton", "singletons", True

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name, self._function = name, function
        self.place = place(function) if is_function(function) else repr(function)

    @property
    def thing(self) -> Callable[..., object]:
        """Return the function."""
        return self._function

    def check(self) -> None:
        """Refuse a function that could not be called with a handle, or that would not run its body then."""
        told, function = f"singleton '{self.name}'", self._function
        if not is_function(function):
            raise RegistryError(f"{told}: expected a function, got {function!r}")
        signature = inspect.signature(function)
        try:
            signature.bind(None)
        except TypeError as error:
            raise RegistryError(
                f"{told}: {self.place} is called with a Singleton and nothing else, but takes {signature} "
                f"({error}); write: def {function.__name__}(singleton: Singleton) -> None"
            ) from error
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise RegistryError(f"{told}: {self.place} has a yield in it, so calling it would run nothing")


def is_function(thing: object) -> bool:
    """Tell whether a thing is a function, or a method of an object."""
    return inspect.isfunction(thing) or inspect.ismethod(thing)


def singleton_name(name: object) -> str:
    """Return the name of a singleton, or raise RegistryError with the rule."""
    if not isinstance(name, str) or not SINGLETON_NAME.fullmatch(name):
        raise RegistryError(f'singleton: expected a name like "projection:orders", got {name!r}')
    return name

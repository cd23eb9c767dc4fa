"""Singletons in a registry: what is found when one is defined, and what is refused with which words."""

import pytest

from fastq.errors import RegistryError
from fastq.jobs.registry import Registry
from fastq.work.singletons import is_singletons


@pytest.fixture
def registry():
    return Registry()


def run(singleton):
    pass


async def run_async(singleton):
    pass


def test_a_singleton_is_found_by_its_name_and_stays_a_function(registry):
    assert registry.singleton("projection:orders")(run) is run
    assert registry.singleton("mails")(run_async) is run_async

    assert dict(registry.singletons) == {"projection:orders": run, "mails": run_async}


def test_the_mapping_of_singletons_is_for_reading(registry):
    with pytest.raises(TypeError):
        registry.singletons["a"] = run


def test_a_name_has_one_singleton(registry):
    registry.singleton("a")(run)

    with pytest.raises(RegistryError, match=r"'a' is defined twice: .*\.run and .*\.run_async"):
        registry.singleton("a")(run_async)
    assert registry.singletons["a"] is run


@pytest.mark.parametrize("name", ["", " ", "a b", "a\nkill", "ä", "x" * 128, 3, None, run])
def test_a_name_without_blanks_is_wanted(registry, name):
    with pytest.raises(RegistryError, match="expected a name like"):
        registry.singleton(name)


def no_handle():
    pass


def too_much(singleton, more):
    pass


def generator(singleton):
    yield


async def async_generator(singleton):
    yield


class Callable:
    def __call__(self, singleton):
        pass


@pytest.mark.parametrize("function", [no_handle, too_much, generator, async_generator, Callable, Callable(), None])
def test_what_could_not_run_is_refused(registry, function):
    with pytest.raises(RegistryError, match="singleton 'a'"):
        registry.singleton("a")(function)
    assert not registry.singletons


@pytest.mark.parametrize(
    ("lease", "passes"),
    [
        ("singleton:projection:orders", True),
        ("leader:default", False),
        ("singleton:", False),
        ("singleton:a\nkill", False),
        ("singleton:a b", False),
        ("", False),
    ],
)
def test_only_what_looks_like_a_singletons_lease_reaches_a_process(lease, passes):
    assert is_singletons(lease) == passes

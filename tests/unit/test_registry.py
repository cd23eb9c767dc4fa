"""A registry takes declarations of any sort: here of one that it has never heard of."""

import pytest

from fastq import app
from fastq.errors import RegistryError
from fastq.jobs.declaration import Declaration, SingletonDeclaration
from fastq.jobs.registry import Registry
from fastq.lead import definitions


class Limit(Declaration):
    """A made-up sort, as a room brings it that fastq does not have."""

    noun, heading, columns = "limit", "limits", ("limit", "most")

    def __init__(self, name, most, place):
        self.name, self.most, self.place = name, most, place

    def check(self):
        if self.most < 1:
            raise RegistryError(f"{self.place}: limit '{self.name}': expected a whole number above 0, got {self.most}")

    def row(self):
        return (self.name, str(self.most))


class Loop(Limit):
    """Another, which gives processes something to do."""

    works = True


@pytest.fixture
def registry():
    return Registry()


def run(singleton):
    pass


def test_a_thing_of_an_unknown_sort_is_declared_and_found_by_its_class(registry):
    limit = Limit("api", 3, "app, line 1")
    registry.declare(limit)
    registry.declare(Loop("api", 4, "app, line 2"))

    assert registry.sorts() == [Limit, Loop]
    assert dict(registry.declared(Limit)) == {"api": limit}
    assert limit.thing is limit


def test_our_sorts_come_first(registry):
    registry.declare(Limit("api", 3, "app, line 1"))
    registry.singleton("a")(run)

    assert registry.sorts() == [SingletonDeclaration, Limit]
    assert registry.declared(SingletonDeclaration)["a"].thing is run


def test_a_second_thing_of_one_name_is_refused_with_both_places(registry):
    registry.declare(Limit("api", 3, "app, line 1"))

    with pytest.raises(RegistryError, match=r"^limit 'api' is defined twice: app, line 1 and app, line 9; rename or remove one$"):
        registry.declare(Limit("api", 4, "app, line 9"))
    assert registry.declared(Limit)["api"].most == 3


def test_a_thing_is_checked_when_it_is_declared_and_a_bad_one_is_not_kept(registry):
    with pytest.raises(RegistryError, match=r"^app, line 1: limit 'api': expected a whole number above 0, got 0$"):
        registry.declare(Limit("api", 0, "app, line 1"))

    assert registry.sorts() == []


def test_declarations_are_for_reading(registry):
    registry.declare(Limit("api", 3, "app, line 1"))

    with pytest.raises(TypeError):
        registry.declared(Limit)["api"] = None


@pytest.mark.parametrize(("sort", "runs"), [(Limit, False), (Loop, True)])
def test_an_app_needs_a_declaration_that_gives_processes_something_to_do(registry, tmp_path, monkeypatch, sort, runs):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    module = type(pytest)("made_up_app")
    module.__file__, module.registry = "made_up_app.py", registry
    monkeypatch.setitem(app.sys.modules, "made_up_app", module)
    registry.declare(sort("api", 3, "app, line 1"))

    if runs:
        assert app.load("made_up_app:registry") is registry
    else:
        with pytest.raises(RegistryError, match="has no workers"):
            app.load("made_up_app:registry")


def test_a_sort_that_the_database_knows_is_written_by_its_writer(registry, monkeypatch):
    registry.declare(Limit("api", 3, "app, line 1"))

    assert definitions.define(None, registry) == []
    monkeypatch.setitem(definitions.WRITERS, Limit, lambda _, declared: [f"{name}={one.most}" for name, one in declared.items()])
    assert definitions.define(None, registry) == ["api=3"]

"""The import of the application: each thing that can be wrong is told as what it is."""

import sys

import pytest

from fastq import app
from fastq.errors import RegistryError
from fastq.jobs.registry import Registry

GOOD = """
from dataclasses import dataclass
from fastq import Args, Job, Registry, Worker

registry = Registry()
empty = Registry()
number = 3

@dataclass
class NapArgs(Args, kind="nap"):
    seconds: float

@registry.register
class NapWorker(Worker[NapArgs]):
    def work(self, job: Job[NapArgs]) -> None: ...
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give a current directory with packages of its own; what it imports is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = set(sys.modules)
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    (tmp_path / "good.py").write_text(GOOD)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(target, app_dir=None):
    with pytest.raises(RegistryError) as caught:
        app.load(target, app_dir)
    return str(caught.value)


def test_a_registry_is_imported_from_the_current_directory(folder):
    registry = app.load("good:registry")

    assert isinstance(registry, Registry)
    assert list(registry.workers) == ["nap"]
    assert sys.path[0] == str(folder)


def test_a_registry_is_imported_from_the_app_dir(folder):
    (folder / "src").mkdir()
    (folder / "src" / "inner.py").write_text(GOOD)

    assert "nap" in app.load("inner:registry", folder / "src").workers


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("good", "that is good:registry"),
        ("pack/jobs.py", "that is pack.jobs:registry"),
        ("./good.py:registry", "for a registry called 'registry' in ./good.py that is good:registry"),
        ("pack/jobs.py:tasks", "that is pack.jobs:tasks"),
        ("good:", "that is good:registry"),
        (":x", ""),
        ("a b:c", ""),
        ("", ""),
        ("good:registry.x", ""),
    ],
)
def test_a_target_that_is_written_wrongly_is_told_how_to_write_it(target, hint):
    told = refusal(target)

    assert told.startswith(f"expected MODULE:REGISTRY such as app.jobs:registry, got {target!r}")
    assert told.endswith(hint)


def test_a_module_that_is_not_there_is_told_from_one_that_it_imports(folder):
    (folder / "lacking.py").write_text("import requests_of_tomorrow\n")
    (folder / "pack" / "jobs.py").write_text("import pack.nothing\n")

    assert refusal("nothing:registry").startswith(f"no module 'nothing' in {folder} nor among the installed packages")
    assert refusal("good.py:registry") == "no module 'good.py'; the module is called good: leave '.py' out"
    assert refusal("pack.nothing:registry").startswith(f"no module 'pack.nothing'; the package 'pack' was found at {folder}")
    told = refusal("lacking:registry")
    assert told.startswith(
        "lacking:registry: your module imports 'requests_of_tomorrow', which is not installed here; pip install"
    )
    assert f'File "{folder}/lacking.py", line 1' in told
    assert "your module imports 'pack.nothing', which does not exist" in refusal("pack.jobs:registry")


def test_a_module_in_a_folder_below_is_told_with_the_app_dir_to_give(folder):
    (folder / "src").mkdir()
    (folder / "src" / "deep.py").write_text(GOOD)

    assert refusal("deep:registry").endswith(f"there is {folder}/src/deep.py: add --app-dir {folder}/src")


def test_an_attribute_that_is_not_there_is_told_with_those_that_are(folder):
    assert refusal("good:regstry") == "module 'good' has no 'regstry'; it has good:empty and good:registry"


def test_what_is_no_registry_is_told_as_what_it_is(folder):
    (folder / "bare.py").write_text("x = 1\n")

    assert refusal("good:number").startswith("good:number is an int and no Registry; it has good:empty")
    assert refusal("good:NapWorker").startswith("good:NapWorker is a class and no Registry")
    assert (
        refusal("bare:x")
        == f"bare:x is an int and no Registry; it has no Registry at all: write x = Registry() in {folder}/bare.py"
    )


def test_a_registry_without_workers_is_told_how_it_gets_some(folder):
    assert "good:empty has no workers; write @empty.register above them" in refusal("good:empty")


def test_a_module_that_makes_a_library_fail_deep_within_itself_is_told_with_its_own_frame(folder):
    (folder / "raising.py").write_text("import json\n\n\nclass Odd:\n    pass\n\n\nmade = json.dumps([[[Odd()]]], indent=1)\n")

    told = refusal("raising:registry")

    assert f'File "{folder}/raising.py", line 8' in told
    assert "json/encoder.py" in told
    assert told.count('  File "') == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f():\n    return 1 / 0\n\nf()\n", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("raise BaseException('odd')\n", "BaseException: odd"),
    ],
)
def test_a_module_that_raises_is_told_with_its_own_frames_alone(folder, text, said):
    (folder / "raising.py").write_text(text)

    told = refusal("raising:registry")

    assert told.startswith("raising:registry raised while it was imported: ")
    assert said in told
    assert f'File "{folder}/raising.py", line' in told
    assert "importlib" not in told
    assert "fastq/app.py" not in told


def test_a_worker_that_cannot_be_registered_is_told_as_that(folder):
    (folder / "wrong.py").write_text("from fastq import Registry, Worker\nr = Registry()\n\n@r.register\nclass W(Worker): pass\n")

    told = refusal("wrong:r")
    assert told.startswith("wrong:r cannot be imported: wrong.W does not say what it works")
    assert 'wrong.py", line 4' in told


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_an_app_dir_that_everybody_may_write_to_is_refused(folder, mode):
    (folder / "open").mkdir()
    (folder / "open").chmod(mode)
    (folder / "open" / "good.py").write_text(GOOD)

    told = refusal("good:registry", folder / "open")

    assert "may be written to by every user of this machine" in told
    assert str(folder / "open") not in sys.path


def test_an_app_dir_that_is_not_there_is_told(folder):
    assert "is no directory" in refusal("good:registry", folder / "elsewhere")

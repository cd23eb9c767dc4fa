"""Import the application that the operator named: `module.sub:attribute` must be a `Registry`.

Run by the main thread of a command (`fastq dev` only checks the target and the app dir), by the fork server and by each worker
process, once each, before any connection of theirs exists, and any thread but that by which a child of `fastq dev` sees its end.
The target comes from the command line alone, never from the database. Nothing is kept here: the caller has the registry, and
Python the modules.

Invariant: each failure has an error of its own (your module is not there, your module imports something that is not
there, your module raised), which says how to mend it and shows the user's own traceback without our frames.

The app dir goes first on sys.path. One that everybody may write to is refused, sticky or not: any user of the machine
could put a `json.py` there and have it run by us. It deliberately does not search for registries: the operator names one.
"""

from __future__ import annotations

import importlib
import stat
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from fastq.errors import FastqError, RegistryError
from fastq.jobs.registry import Registry

FRAMES = 4
"""Frames of the user's traceback to show: where it broke and how it got there, and still one screen."""


def load(target: str, app_dir: Path | None = None) -> Registry:
    """Import the registry; the app dir is the current directory unless one is given."""
    module_name, attribute = split(target)
    directory = insert(app_dir)
    return _registry(_import(module_name, target, directory), attribute)


def find(target: str, app_dir: Path | None = None) -> object:
    """Import what a target such as `app.web:auth` names."""
    module_name, attribute = split(target)
    module = _import(module_name, target, insert(app_dir))
    if not hasattr(module, attribute):
        raise RegistryError(f"{target}: module '{module.__name__}' has no '{attribute}'")
    found: object = getattr(module, attribute)
    return found


def split(target: str) -> tuple[str, str]:
    """Take `module.sub:attribute` apart, or say how a target is written."""
    module, _, attribute = target.partition(":")
    if all(part.isidentifier() for part in module.split(".")) and attribute.isidentifier():
        return module, attribute
    name = attribute or "registry"
    hint = f"; for a registry called '{name}' in {module} that is {_guess(module, name)}" if _guess(module, name) else ""
    raise RegistryError(f"expected MODULE:REGISTRY such as app.jobs:registry, got {target!r}{hint}")


def insert(app_dir: Path | None) -> Path:
    """Put the app dir first on sys.path, if it is one that we may trust; return it."""
    directory = (app_dir or Path()).resolve()
    if not directory.is_dir():
        raise RegistryError(f"the app dir {directory} is no directory; give --app-dir the folder that holds your package")
    if directory.stat().st_mode & stat.S_IWOTH:
        raise RegistryError(
            f"the app dir {directory} may be written to by every user of this machine, and what lies there would be run; "
            f"chmod o-w {directory}, or give --app-dir another folder"
        )
    if sys.path[:1] != [str(directory)]:
        sys.path.insert(0, str(directory))
    return directory


def _guess(file: str, attribute: str) -> str:
    path = file.removesuffix(".py").replace("/", ".").strip(".")
    good = attribute.isidentifier() and all(part.isidentifier() for part in path.split("."))
    return f"{path}:{attribute}" if good else ""


def _import(name: str, target: str, directory: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name + ".").startswith(error.name + "."):
            raise RegistryError(_not_found(name, error.name, directory)) from None
        own = (error.name or "").partition(".")[0] == name.partition(".")[0]
        why = "which does not exist" if own else f"which is not installed here; pip install it into {sys.prefix}"
        raise RegistryError(f"{target}: your module imports '{error.name}', {why}\n{_frames(error)}".rstrip()) from None
    except FastqError as error:
        raise RegistryError(f"{target} cannot be imported: {error}\n{_frames(error)}".rstrip()) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a sys.exit() in the user's module too  # noqa: BLE001
        told = "".join(traceback.format_exception_only(error)).strip()
        raise RegistryError(f"{target} raised while it was imported: {told}\n{_frames(error)}".rstrip()) from None


def _not_found(name: str, missing: str, directory: Path) -> str:
    looked = f"no module '{missing}' in {directory} nor among the installed packages"
    if "." in name and missing != name.partition(".")[0]:
        parent = missing.rpartition(".")[0]
        found = getattr(sys.modules.get(parent), "__file__", None)
        if missing == f"{parent}.py" and found:
            return f"no module '{missing}'; the module is called {parent}: leave '.py' out"
        return f"no module '{missing}'; the package '{parent}' was found at {found or 'a folder without __init__.py'}"
    path = Path(*missing.split(".")).with_suffix(".py")
    below = next((found for found in sorted(directory.glob(f"*/{path}")) if ".venv" not in found.parts), None)
    hint = f"; there is {below}: add --app-dir {below.parent}" if below else "; run from your project's folder, or add --app-dir"
    return looked + hint


def _frames(error: BaseException) -> str:
    """Show the last frames of the user's import, and in any case the last one in a file of the user's own."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
    shown = frames[-FRAMES:]
    own = [frame for frame in frames if not _is_installed(frame.filename)]
    if own and own[-1] not in shown:  # a library fails deep within itself; the mistake is in the user's call of it
        shown = [own[-1], *frames[1 - FRAMES :]]
    return "".join(traceback.format_list(shown)).rstrip()


def _is_installed(filename: str) -> bool:
    folders = sysconfig.get_paths()
    return any(Path(filename).is_relative_to(folders[name]) for name in ("stdlib", "purelib", "platlib"))


def _is_ours(filename: str) -> bool:
    return (
        filename.startswith("<frozen importlib")
        or Path(filename).is_relative_to(Path(__file__).parent)
        or (filename == importlib.__file__)
    )


def _registry(module: ModuleType, attribute: str) -> Registry:
    registries = sorted(name for name, value in vars(module).items() if isinstance(value, Registry))
    listed = (
        "; it has " + " and ".join(f"{module.__name__}:{name}" for name in registries)
        if registries
        else (f"; it has no Registry at all: write {attribute} = Registry() in {module.__file__}")
    )
    if not hasattr(module, attribute):
        raise RegistryError(f"module '{module.__name__}' has no '{attribute}'{listed}")
    found = getattr(module, attribute)
    if not isinstance(found, Registry):
        raise RegistryError(f"{module.__name__}:{attribute} is {_kind_of(found)} and no Registry{listed}")
    if not any(sort.works for sort in found.sorts()):
        raise RegistryError(
            f"{module.__name__}:{attribute} has no workers; write @{attribute}.register above them, "
            f"and import their modules in {module.__file__}"
        )
    return found


def _kind_of(value: object) -> str:
    name = "class" if isinstance(value, type) else type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"

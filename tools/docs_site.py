"""Build the documentation as a site.

    python tools/docs_site.py [--version NAME] [FOLDER]

The pages are those of docs/, with the README as the first one; the index of docs/ is the menu. Links that leave docs/ lead to a
page of the site where there is one: ARCHITECTURE.md, the changelog, the examples. Each version has a folder of its own in the
site, and the newest one is what the site's root shows.

It is called by `make docs`. Zensical makes the HTML and the search index, strictly: a link or an anchor that leads nowhere ends
the build. Nothing of the site is fetched from elsewhere when a reader opens it.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "tools" / "docs_site.toml"
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of the site that lie beside docs/, with their names there."""

INDEX = "docs/README.md"
"""The menu; it is no page of the site."""

ROOT_PAGE = """\
<!doctype html><html lang="en"><meta charset="utf-8"><title>fastq</title>
<meta http-equiv="refresh" content="0; url={newest}/">
<a href="{newest}/">fastq {newest}</a></html>
"""
"""What the root of the site is: the way to the newest version."""

CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
GROUP = re.compile(r"^\*\*(.+?)\*\*")
ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\)")


def main() -> int:
    """Build the site of one version into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--version", default=version(), help="the folder of this version in the site [default: that of the package]"
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as staged:
        stage(Path(staged))
        (Path(staged) / "zensical.toml").write_text(configuration(options.version))
        built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict", "--clean"], cwd=staged, check=False)
        if built.returncode:
            return built.returncode
        publish(Path(staged) / "site", options.folder, options.version)
    print(f"the site: {options.folder}/index.html")
    return 0


def version() -> str:
    """Return the version of the package, as far as its users tell versions apart."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return ".".join(whole.split(".")[:2])


def stage(folder: Path) -> None:
    """Copy all pages and pictures into a folder, each page with links that lead to the site's own pages."""
    places = sources()
    for source, place in places.items():
        target = folder / "docs" / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py":
            target.write_text(example(source))
        elif source.suffix == ".md":
            target.write_text(relinked(source, place, places))
        else:
            shutil.copy(source, target)
    (folder / "docs" / "examples" / "index.md").write_text(examples(places))


def sources() -> dict[Path, str]:
    """Return the files that the site is made of, each with its place there."""
    places = {ROOT / name: place for name, place in PAGES.items()}
    for path in sorted((ROOT / "docs").rglob("*")):
        if path.suffix in (".md", ".png", ".svg") and path != ROOT / INDEX:
            places[path] = str(path.relative_to(ROOT / "docs"))
    for path in sorted((ROOT / "examples").rglob("*.py")):
        if path.name != "__init__.py":
            places[path] = str(path.relative_to(ROOT).with_suffix(".md"))
    return places


def relinked(page: Path, place: str, places: dict[Path, str]) -> str:
    """Return a page with its links turned to pages of the site; a link to any other file is its text alone."""
    text, code = page.read_text(), []
    text = CODE.sub(lambda found: code.append(found.group()) or f"\0{len(code) - 1}\0", text)
    text = re.sub(r"\[([^\]\[]*)\]\(([^)\s]+)\)", lambda found: turned(found, page, place, places), text)
    return re.sub(r"\0(\d+)\0", lambda found: code[int(found.group(1))], text)


def turned(found: re.Match[str], page: Path, place: str, places: dict[Path, str]) -> str:
    """Return a link as the site has it."""
    label, (target, _, anchor) = found.group(1), found.group(2).partition("#")
    if "://" in target or not target:
        return found.group()
    path = (page.parent / target).resolve()
    there = "examples/index.md" if path == ROOT / "examples" else places.get(path)
    if path == ROOT / INDEX:
        there = "index.md"
    if there is None:
        return label
    return f"[{label}]({os.path.relpath(there, Path(place).parent)}{'#' + anchor if anchor else ''})"


def example(path: Path) -> str:
    """Return the page of an example: what it says of itself, and its code."""
    text = path.read_text()
    doc = ast.get_docstring(ast.parse(text)) or path.stem
    return f"# {path.stem.replace('_', ' ').capitalize()}\n\n{doc.partition(chr(10))[0]}\n\n```python\n{text.rstrip()}\n```\n"


def examples(places: dict[Path, str]) -> str:
    """Return the page that lists the examples."""
    lines = ["# Examples", "", "Each is a program that runs, and is run by the tests.", ""]
    for path, place in places.items():
        if path.suffix == ".py":
            doc = ast.get_docstring(ast.parse(path.read_text())) or ""
            lines.append(f"- [{path.stem}]({os.path.relpath(place, 'examples')}): {doc.partition(chr(10))[0]}")
    return "\n".join(lines) + "\n"


def menu() -> list[dict[str, object]]:
    """Return the menu: the groups of the index of docs/, with its titles."""
    groups: list[dict[str, object]] = [{"fastq": "index.md"}]
    entries: list[dict[str, str]] = []
    for line in (ROOT / INDEX).read_text().splitlines():
        if found := GROUP.match(line):
            entries = []
            groups.append({found.group(1): entries})
        elif found := ENTRY.match(line):
            entries.append({found.group(1): found.group(2)})
    entries.insert(0, {"Architecture": "architecture.md"})
    below = [
        {"All examples": "examples/index.md"},
        *({place.stem: str(place)} for place in map(Path, sources().values()) if place.parts[0] == "examples"),
    ]
    groups.append({"Examples": below})
    groups.append({"Project": [{"Changelog": "changelog.md"}, {"Contributing": "contributing.md"}]})
    return groups


def configuration(name: str) -> str:
    """Return the configuration, with the menu of the index in it."""
    text = CONFIG.read_text()
    return text.replace("nav = []", f"nav = {inline(menu())}").replace("VERSION", name)


def inline(value: object) -> str:
    """Write a value as TOML has it in a line."""
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {inline(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value)


def publish(built: Path, folder: Path, name: str) -> None:
    """Put a version into the site, list it among the others, and have the root lead to the newest."""
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(built, folder / name)
    names = sorted({path.name for path in folder.iterdir() if path.is_dir()}, key=numbers, reverse=True)
    listed = [{"version": one, "title": one, "aliases": ["latest"] if one == names[0] else []} for one in names]
    (folder / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")
    (folder / "index.html").write_text(ROOT_PAGE.format(newest=names[0]))


def numbers(name: str) -> list[int]:
    """Return a version in an order in which 0.10 comes behind 0.9."""
    return [int(part) for part in re.findall(r"\d+", name)]


if __name__ == "__main__":
    sys.exit(main())

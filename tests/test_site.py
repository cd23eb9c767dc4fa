"""The documentation as a site: each page has a place, links lead somewhere, versions lie side by side, nothing is fetched."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = ROOT / "tools" / "docs_site.py"

pytestmark = pytest.mark.further


def build(folder: Path, name: str) -> None:
    """Build the site of a version; a broken link or anchor fails it."""
    built = subprocess.run(
        [sys.executable, TOOL, "--version", name, folder], capture_output=True, text=True, timeout=110, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for name in ("0.9", "0.10"):
        build(folder, name)
    return folder


def test_each_page_of_the_docs_is_a_page_of_the_site(site: Path) -> None:
    pages = [
        path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md") if path.name != "README.md"
    ]

    assert len(pages) > 70
    assert [page for page in pages if not (site / "0.10" / page / "index.html").exists()] == []


def test_each_page_is_in_the_menu_of_the_first_one(site: Path) -> None:
    first = (site / "0.10" / "index.html").read_text()
    pages = {path.parent.relative_to(site / "0.10") for path in (site / "0.10").rglob("index.html")} - {Path()}

    assert [page for page in pages if f'href="./{page}/"' not in first] == []


def test_the_root_leads_to_the_newest_version_and_lists_the_others(site: Path) -> None:
    assert 'url=0.10/"' in (site / "index.html").read_text()
    assert [one["version"] for one in json.loads((site / "versions.json").read_text())] == ["0.10", "0.9"]


def test_the_first_page_says_what_it_is_and_when_not_to_take_it(site: Path) -> None:
    first = (site / "0.10" / "index.html").read_text()

    assert "A job queue for Python teams" in first
    assert "When not to take it" in first


def test_a_search_finds_the_words_of_a_page(site: Path) -> None:
    assert "keep_trying_for" in (site / "0.10" / "search.json").read_text()


def test_a_reader_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = re.compile(
        r"""(?:<(?:script|img|iframe|source)[^>]*\ssrc|<link[^>]*rel="(?:stylesheet|preload|preconnect|icon)"[^>]*href)=["']?(?:https?:)?//"""
    )
    styles = re.compile(r"""(?:@import|url\()\s*["']?(?:https?:)?//""")

    assert [page for page in site.rglob("*.html") if fetched.search(page.read_text())] == []
    assert [sheet for sheet in site.rglob("*.css") if styles.search(sheet.read_text())] == []

"""The cells of `fastq bench`, the picture, the systems of `bench.peers`, and the check of ratios, at their smallest."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.check import FIGURES, ratios, worse
from fastq.bench.cells import plot, speak
from fastq.bench.cells.table import BY_NAME, CELLS

pytestmark = pytest.mark.further

ROOT = Path(__file__).parent.parent.parent
SMALL = ("--jobs", "3000", "--rounds", "1", "--procs", "2")


def run(*command, patience):
    """Run a program of the checkout; return what it printed and what it told on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=patience, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def measured(server, migrated_template, tmp_path_factory):
    """Give the result of all cells, what was told meanwhile, and the picture."""
    from tests.helpers import create_database, drop_database

    name, picture = "fastq_test_cells", tmp_path_factory.mktemp("bench") / "bench.svg"
    database = create_database(server, name, migrated_template)
    words = ("--skip", "route,enqueue,latency", "--json", "--plot", str(picture), "--database", database)
    out, told = run("fastq", "bench", *SMALL, *words, patience=280)
    drop_database(server, name)
    return json.loads(out), told, picture.read_text()


@pytest.mark.timeout(300)
def test_every_cell_answers_with_all_of_its_figures(measured):
    result, told, _ = measured

    assert list(result["cells"]) == [cell.name for cell in CELLS]
    for cell in CELLS:
        figures = result["cells"][cell.name]["figures"]
        assert set(figures) == set(cell.figures) == set(result["cells"][cell.name]["rounds"][0])
        assert figures[next(iter(cell.figures))] > -1_000
        assert f", {cell.name}: {cell.question}" in told
    assert result["cells"]["backlog"]["figures"]["jobs_per_s"] > 0
    assert result["cells"]["retry"]["figures"]["wal_bytes"] > result["cells"]["backlog"]["figures"]["wal_bytes"]
    assert 0 < result["cells"]["sleep"]["figures"]["ideal_percent"] <= 101
    assert 0 < result["cells"]["cpu"]["figures"]["ideal_percent"] <= 101
    assert len(result["cells"]["idle"]["samples"]) == 20


@pytest.mark.timeout(300)
def test_the_picture_has_bars_a_histogram_and_curves_in_both_colours(measured):
    _, _, picture = measured
    words = {"backlog", "delay", "from commit to work, in ms", "jobs/s over queues", "jobs/s over hosts"}

    ET.fromstring(picture)
    assert {text for text in words if f">{text}<" not in picture} == set()
    assert picture.count('class="bar"') > 10
    assert "prefers-color-scheme: dark" in picture
    assert "<script" not in picture


def test_a_picture_escapes_what_it_shows_and_leaves_out_what_there_is_not():
    picture = plot.drawn("<b>", [plot.Bar("a & b", 3.0)], (), {"one point": [(1, 2.0)]})

    ET.fromstring(picture)
    assert "&lt;b&gt;" in picture
    assert "a &amp; b" in picture
    assert "one point" not in picture
    assert "p99" not in picture


def test_the_enqueues_of_all_threads_are_each_number_once_at_the_rate():
    from types import SimpleNamespace

    given = SimpleNamespace(count=103, batch=10, threads=3, queues=["a", "b"], gap=None, rate=1_000.0, seconds=0.0, first=7)
    found = [call for thread in range(3) for call in speak.calls(given, thread)]
    times = sorted(at for _, _, at in found)

    assert sorted(number for numbers, _, _ in found for number in numbers) == list(range(7, 110))
    assert {queue for _, queue, _ in found} == {"a", "b"}
    assert 0.09 < times[-1] - times[0] < 0.2  # ten batches of ten at a thousand a second; the last is short


def test_args_of_a_large_job_are_a_kilobyte_in_twelve_fields():
    args = speak.args_of("large", 12, "")

    assert len(args) == 12
    assert 900 < len(json.dumps(args)) < 1_200


@pytest.mark.timeout(300)
def test_fastq_the_floor_and_a_peer_are_asked_the_same_and_what_cannot_be_had_is_said():
    """PgQueuer is installed on first use; where no index of packages can be reached, the table says so."""
    words = ("--only", "fastq,floor,pgqueuer", "--cells", "backlog,trickle,enqueue,retry", "--rounds", "1", "--scale", "0.02")
    result = json.loads(run("bench.peers", *words, "--json", patience=280)[0])

    for name in ("backlog", "trickle", "enqueue", "retry"):
        cell = result["cells"][name]
        for system in ("fastq", "floor", "pgqueuer"):
            if "absent" in result["systems"][system]:
                assert system == "pgqueuer"
                continue
            if system not in cell["rounds"]:
                assert (name, cell["lacking"][system][:6]) == ("retry", cell["lacking"][system][:6])
                assert not cell["lacking"][system].startswith("failed")
                continue
            assert set(cell["rounds"][system][0]) <= set(BY_NAME[name].figures)
    from bench.peers.table import markdown

    text = markdown(result)
    assert "| fastq |" in text
    assert "synchronous_commit" in text


def test_a_peer_that_cannot_be_had_has_its_reason():
    from bench.peers.install import Absent, _run

    with pytest.raises(Absent, match="there is no no-such-program on this machine"):
        _run("no-such-program", "install")


def test_a_ratio_that_is_worse_by_more_than_a_tenth_is_named():
    rounds = {
        cell: {"fastq": [dict.fromkeys(figures, 50.0)] * 2, "floor": [dict.fromkeys(figures, 100.0)] * 2}
        for cell, figures in FIGURES.items()
    }
    now = ratios(rounds)

    assert now["backlog.jobs_per_s"] == 0.5  # half of the rate
    assert now["backlog.server_us"] == 2.0  # and half of the cost
    assert worse(now, {name: ratio * 1.09 for name, ratio in now.items()}) == []
    assert len(worse(now, {name: ratio * 1.13 for name, ratio in now.items()})) == len(now)

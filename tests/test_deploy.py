"""The files of deploy/: their own linters take them, and they name commands, settings and metrics that there are."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from fastq.cli.terminal.commands import parser_of
from fastq.config import Config, variable_of

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
TEXTS = sorted(path for path in DEPLOY.iterdir() if path.suffix != ".md")
PROGRAMS = Path(sys.executable).parent

pytestmark = pytest.mark.further


def lint(*command: str | Path) -> None:
    """Run a linter; its words are those of the failure."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_taken_by_hadolint() -> None:
    lint(PROGRAMS / "hadolint", DEPLOY / "Dockerfile")


def test_the_manifests_are_taken_by_the_schemas_of_kubernetes() -> None:
    lint(PROGRAMS / "kubernetes-validate", "--strict", DEPLOY / "kubernetes.yaml")


def test_the_unit_is_taken_by_systemd(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    unit = tmp_path / "fastq.service"
    text = (DEPLOY / "fastq.service").read_text()
    unit.write_text(re.sub(r"/srv/shop/\S*/fastq", shutil.which("true") or "/bin/true", text))

    lint("systemd-analyze", "verify", "--man=no", unit)


def commands() -> list[list[str]]:
    """Return the commands of fastq in the files, as words."""
    texts = [
        re.sub(r'[\[\]",]', " ", text) for path in TEXTS for text in path.read_text().splitlines() if not text.startswith("#")
    ]
    return [
        line.partition("fastq ")[2].split("#")[0].split()
        for line in texts
        if re.search(r"(?:fastq|/fastq) +(?:run|migrate|health)\b", line)
    ]


def test_each_command_in_them_is_one_that_fastq_takes() -> None:
    found = commands()

    assert len(found) == 7
    for name, *rest in found:
        parser_of(name).parse_args(rest)


def test_each_variable_in_them_is_a_setting() -> None:
    known = {variable_of(setting.name) for setting in fields(Config)}
    named = {name for path in TEXTS for name in re.findall(r"\bFASTQ_[A-Z_]+", path.read_text())}

    assert named >= {"FASTQ_DATABASE_URL", "FASTQ_HEALTH"}
    assert named - known == set()


def test_containers_have_more_time_to_stop_than_jobs_have_to_end() -> None:
    pod = next(one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()) if one["kind"] == "Deployment")
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["jobs"]
    unit = (DEPLOY / "fastq.service").read_text()
    least = Config().shutdown_timeout + 15  # docs/deploying.md: step 5

    assert pod["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= least
    assert int(composed["stop_grace_period"].removesuffix("s")) >= least
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[1]) >= least


def test_each_metric_on_the_dashboard_is_one_that_a_supervisor_tells_and_each_of_these_is_shown() -> None:
    told = set(re.findall(r"`(fastq_\w+)(?:\{[^`]*\})?`", (ROOT / "docs" / "health.md").read_text())) - {"fastq_alive"}
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    shown = {name for panel in panels for target in panel["targets"] for name in re.findall(r"fastq_\w+", target["expr"])}

    assert len(told) > 8
    assert shown == told

"""A trace goes from a program that enqueues to the worker process, and is sent when that ends: both integrations at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.further]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sent(supervise, jobs, tmp_path, monkeypatch):
    """Enqueue jobs, work them, end the processes; give what each tool was sent, as a function of its name."""
    monkeypatch.setenv("TRACES", str(tmp_path))
    environment = {**os.environ, "FASTQ_DATABASE_URL": jobs.url}
    subprocess.run([sys.executable, "-m", "tests.process.traced"], cwd=ROOT, env=environment, check=True, timeout=60)
    supervisor = supervise("tests.process.traced:registry")
    jobs.wait_until_none_is_left()
    code, _ = supervisor.stop()
    assert code == 0
    return lambda name: [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]


def test_a_trace_goes_from_the_enqueue_to_the_work(sent):
    spans = sent("otel")
    [request] = [span for span in spans if span["name"] == "request"]
    produced = {span["context"]["span_id"]: span for span in spans if span["name"] == "enqueue default"}
    consumed = [span for span in spans if span["name"] == "work default"]

    assert {span["parent_id"] for span in produced.values()} == {request["context"]["span_id"]}
    assert sorted((span["attributes"]["fastq.kind"], span["attributes"]["fastq.outcome"]) for span in consumed) == [
        ("awaited", "completed"),
        ("awaited", "discarded"),
        ("awaited", "failed"),
        ("threaded", "completed"),
        ("threaded", "discarded"),
        ("threaded", "failed"),
    ]
    for span in consumed:
        [link] = span["links"]
        assert produced[link["context"]["span_id"]]["attributes"]["fastq.kind"] == span["attributes"]["fastq.kind"]
        assert span["parent_id"] is None

    events = sent("sentry")
    [first] = [event for event in events if event.get("transaction") == "request"]
    published = {span["span_id"] for span in first["spans"] if span["op"] == "queue.publish"}
    traces = [
        event["contexts"]["trace"] for event in events if event.get("contexts", {}).get("trace", {}).get("op") == "queue.process"
    ]
    attempts = [trace for trace in traces if "data" in trace]
    began = [trace for trace in attempts if trace["data"]["messaging.message.retry.count"] == 0]
    assert len(published) == 4
    assert {trace["parent_span_id"] for trace in began} == published
    assert {trace["trace_id"] for trace in began} == {first["contexts"]["trace"]["trace_id"]}
    again = [trace for trace in attempts if trace["data"]["messaging.message.retry.count"] == 1]
    assert {trace["trace_id"] for trace in again}.isdisjoint(trace["trace_id"] for trace in began)
    issues = [event for event in events if "exception" in event]
    assert sorted((issue["tags"]["fastq.kind"], issue["tags"]["fastq.attempt"]) for issue in issues) == [
        ("awaited", 1),
        ("awaited", 2),
        ("threaded", 1),
        ("threaded", 2),
    ]

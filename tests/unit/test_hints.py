"""The table of hints: all that the statements send is in it, and nobody else spells one out."""

import ast
import re
from pathlib import Path

import pytest

from fastq.config import Config
from fastq.host.listener import Listener, read, table_of
from fastq.host.supervisor import Supervisor
from fastq.postgres import hints
from fastq.postgres.hints import HINTS

PACKAGE = Path(__file__).parents[2] / "fastq"
STATEMENTS = sorted((PACKAGE / "sql").rglob("*.sql"))
LITERAL = re.compile(r"'(@\w+)( ?)'")
VERSION = "'@'"  # stands before the version of a job's args (args/versions/names.py)


def literals(path):
    text = re.sub(r"^--.*$", "", path.read_text(), flags=re.MULTILINE).replace(VERSION, "")
    return LITERAL.findall(text)


def test_each_literal_of_a_statement_is_in_the_table_with_its_form():
    sent = {(word, bool(blank)) for path in STATEMENTS for word, blank in literals(path)}

    sent.add((hints.OFTEN.word, True))  # a client sends it by the statement that sends any hint
    assert sent == {(hint.word, bool(hint.names)) for hint in HINTS.values() if hint.word}


def test_no_statement_spells_a_hint_in_another_way():
    for path in STATEMENTS:
        text = re.sub(r"^--.*$", "", path.read_text(), flags=re.MULTILINE).replace(VERSION, "")
        assert len(re.findall(r"'[^']*@[^']*'", text)) == len(literals(path)), path.name


def test_no_module_but_the_table_spells_a_hint_out():
    words = re.compile("(" + "|".join(word for word in HINTS if word) + ")( |$)")
    spelt = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and words.match(node.value)
    }

    assert spelt == {"postgres/hints.py"}


def test_each_hint_has_its_own_word():
    assert [hint.word for hint in HINTS.values()] == list(HINTS)
    assert len(HINTS) + 1 == sum(isinstance(value, hints.Hint) for value in vars(hints).values()), "all but MISSED"


@pytest.mark.parametrize(
    ("payload", "hint", "name"),
    [
        ("emails", hints.QUEUE, "emails"),
        ("a queue", hints.QUEUE, "a queue"),
        ("@due", hints.DUE, ""),
        ("@cancel", hints.CANCEL, ""),
        ("@periodic", hints.PERIODIC, ""),
        ("@waiting emails", hints.WAITING, "emails"),
        ("@often emails", hints.OFTEN, "emails"),
        ("@often @gate", hints.OFTEN, "@gate"),
        ("@lease leader:default", hints.LEASE, "leader:default"),
        ("@lease a b", hints.LEASE, "a b"),
        ("@lease ", hints.LEASE, ""),
        ("@lease", None, ""),
        ("@waiting", None, ""),
        ("@due @lease x", None, ""),
        ("@due ", None, ""),
        ("@resign leader:default", None, ""),
        ("@", None, ""),
        ("", hints.MISSED, ""),
        ("@ x", None, ""),
    ],
)
def test_a_payload_is_read_as_one_of_them_or_as_none(payload, hint, name):
    assert read(payload) == (hint, name)


def test_each_hint_is_heard_by_a_part_of_a_host(monkeypatch):
    monkeypatch.setenv("_FASTQ_FORK_SERVER", "")  # a supervisor sets it
    supervisor = Supervisor(Config(), "app:registry", "postgresql://nowhere")
    (listener,) = [service for service in supervisor._services if isinstance(service, Listener)]

    assert set(listener._table) == {*HINTS.values(), hints.MISSED}


def test_all_that_hear_a_hint_are_called_with_its_name_and_nobody_by_what_is_no_hint():
    heard = []
    one = {hints.LEASE: lambda name: heard.append(("one", name)), hints.MISSED: lambda name: heard.append(("missed", name))}
    other = {hints.LEASE: lambda name: heard.append(("other", name))}
    listener = Listener(Config(), "", table_of(one, other), lambda: None)

    for payload in ("@lease a", "@due", "@resign a", ""):
        listener._hear(payload)

    assert heard == [("one", "a"), ("other", "a"), ("missed", "")]

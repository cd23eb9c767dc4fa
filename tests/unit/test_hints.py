"""The table of hints: all that the statements send is in it, and nobody else spells one out."""

import ast
import re
from pathlib import Path

import pytest

from fastq.postgres import hints
from fastq.postgres.hints import HINTS

PACKAGE = Path(__file__).parents[2] / "fastq"
STATEMENTS = sorted((PACKAGE / "sql").rglob("*.sql"))
LITERAL = re.compile(r"'(@\w*)( ?)'")


def literals(path):
    text = re.sub(r"^--.*$", "", path.read_text(), flags=re.MULTILINE)
    return LITERAL.findall(text)


def test_each_literal_of_a_statement_is_in_the_table_with_its_form():
    sent = {(word, bool(blank)) for path in STATEMENTS for word, blank in literals(path)}

    assert sent == {(hint.word, bool(hint.names)) for hint in HINTS.values() if hint.word}


def test_no_statement_spells_a_hint_in_another_way():
    for path in STATEMENTS:
        text = re.sub(r"^--.*$", "", path.read_text(), flags=re.MULTILINE)
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
    assert hints.read(payload) == (hint, name)

"""Count the words that stand where a noun is missing. `python -m tests.prose` lists the worst files with their sentences.

"What was refused" and "who holds it" make a reader look for the noun: the job, the row, the process, the statement, the
session. A few are the plainest way to say a thing, so they are counted per 1,000 words. Counted are the docstrings and comments
of a module, the comment lines that a file of SQL begins with, and a page of documentation outside its code. The labels of a SQL
header and anything between backticks do not count.
"""

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
COUNTED = {"what": re.compile(r"\bwhat(?:ever)?\b", re.IGNORECASE), "who": re.compile(r"\bwho(?:se|m|ever)?\b", re.IGNORECASE)}
SENTENCE = re.compile(r"(?<=[.:;?!])\s+|\n\s*\n")
LABEL = re.compile(r"^(?:what|called by|index|locks|time): ", re.IGNORECASE | re.MULTILINE)
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@dataclass
class Prose:
    """The prose of one file: its passages, each with the line on which it begins."""

    path: Path
    passages: list[tuple[int, str]]

    @property
    def words(self) -> int:
        """Return the number of its words."""
        return sum(len(WORD.findall(text)) for _, text in self.passages)

    def count(self, word: str) -> int:
        """Return how often one of the counted words stands in it."""
        return sum(len(COUNTED[word].findall(text)) for _, text in self.passages)

    def sentences(self) -> list[tuple[int, str]]:
        """Return the sentences in which a counted word stands, each with its passage's line."""
        return [
            (line, " ".join(sentence.split()))
            for line, text in self.passages
            for sentence in SENTENCE.split(text)
            if any(word.search(sentence) for word in COUNTED.values())
        ]


def read(path: Path) -> Prose:
    """Return the prose of a module, a file of SQL or a page."""
    source = path.read_text()
    found = {".py": _of_module, ".sql": _of_statement}.get(path.suffix, _of_page)(source)
    return Prose(path, [(line, CODE.sub(" ", text)) for line, text in found])


def _of_module(source: str) -> list[tuple[int, str]]:
    docstrings = [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    comments = [
        (token.start[0], token.string.lstrip("#: "))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    # comments on lines that follow each other are one text
    blocks = [list(block) for _, block in groupby(enumerate(comments), key=lambda numbered: numbered[1][0] - numbered[0])]
    return sorted(docstrings + [(block[0][1][0], "\n".join(text for _, (_, text) in block)) for block in blocks])


def _of_statement(source: str) -> list[tuple[int, str]]:
    lines = (line.lstrip("- ") for line in takewhile(lambda line: line.startswith("--"), source.splitlines()))
    return [(1, LABEL.sub("", "\n".join(lines)))]


def _of_page(source: str) -> list[tuple[int, str]]:
    # in a list of links, a link is the title of another page
    own = re.sub(r"^- \[[^\]]*\]\([^)\s]*\)", "- ", source, flags=re.MULTILINE)
    return [(1, re.sub(r"\]\([^)\s]*\)", "]", own))]


def package() -> list[Prose]:
    """Return the prose of each file of the package that has any."""
    files = sorted([*(ROOT / "fastq").rglob("*.py"), *(ROOT / "fastq" / "sql").rglob("*.sql")])
    return [prose for prose in map(read, files) if prose.words]


def pages() -> list[Prose]:
    """Return the prose of README, CONTRIBUTING and the pages of docs/; its folders, reference and decisions, are left out."""
    return [read(path) for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]]


def rate(texts: Iterable[Prose], word: str) -> float:
    """Return how often a counted word stands in 1,000 words of some texts."""
    texts = list(texts)
    return 1000 * sum(text.count(word) for text in texts) / max(1, sum(text.words for text in texts))


def main() -> None:
    """Print the rates, and the files with most counted words with the sentences in which these stand."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("under", nargs="?", default="", help="only files whose path begins so, as in fastq/jobs or docs/")
    parser.add_argument("--files", type=int, default=10, help="how many files are listed")
    chosen = parser.parse_args()
    texts = [text for text in package() + pages() if str(text.path.relative_to(ROOT)).startswith(chosen.under)]
    print(f"{sum(text.words for text in texts):,} words; per 1,000: what {rate(texts, 'what'):.1f}, who {rate(texts, 'who'):.1f}")
    worst = sorted(texts, key=lambda text: -text.count("what") - text.count("who"))
    for text in worst[: chosen.files]:
        print(f"\n{text.path.relative_to(ROOT)}: {text.words} words, what {text.count('what')}, who {text.count('who')}")
        for line, sentence in text.sentences():
            print(f"  {line}: {sentence}")


if __name__ == "__main__":
    main()

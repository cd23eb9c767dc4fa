"""The prose names its nouns: few clauses with "what" and "who" stand for the job, the row, the process."""

import pytest

from tests import prose

# Per 1,000 words of docstrings, comments and headers of SQL; of the pages; of a single file or page. The numbers only go down.
PACKAGE = {"what": 3.0, "who": 1.0}
DOCUMENTATION = {"what": 3.0, "who": 1.0}
FILE = {"what": 9.0, "who": 3.0}
WORDS = 300  # from which on a file has a rate of its own: below, one sentence would decide it
TEXTS, PAGES = prose.package(), prose.pages()
LONG = {str(text.path.relative_to(prose.ROOT)): text for text in TEXTS + PAGES if text.words > WORDS}


@pytest.mark.parametrize("word", prose.COUNTED)
def test_the_prose_of_the_package_seldom_leaves_a_noun_out(word):
    assert prose.rate(TEXTS, word) <= PACKAGE[word], "python -m tests.prose fastq lists the sentences"


@pytest.mark.parametrize("word", prose.COUNTED)
def test_the_documentation_seldom_leaves_a_noun_out(word):
    assert prose.rate(PAGES, word) <= DOCUMENTATION[word], "python -m tests.prose docs lists the sentences"


@pytest.mark.parametrize("name", LONG)
def test_no_file_leaves_out_many_nouns(name):
    rates = {word: prose.rate([LONG[name]], word) for word in prose.COUNTED}

    assert {word for word, rate in rates.items() if rate > FILE[word]} == set(), LONG[name].sentences()

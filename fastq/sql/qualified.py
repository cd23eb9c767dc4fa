"""Write a statement so that it means the same whatever search path its session has.

Run in any thread that makes a statement ready for a session that is not pinned: a caller's connection, a client's, one behind a
pooler. There a name without a schema is looked up along the user's search path. Any role that may create functions in one of its
schemas may have its own found instead of Postgres': `pg_catalog` is searched first, but `public.unnest(bigint[])` fits better
than `pg_catalog.unnest(anyarray)`, and runs with the rights of the caller. So functions, operators and types are named with their
schema: `x <> y` becomes `x operator(pg_catalog.<>) y`. The files of fastq/sql stay as people read them. `qualified` is pure: each
call has a `_Writer` of its own.

Invariant: the two texts are one statement. `tests/db/test_qualified.py` has Postgres parse both, of each file, and compares the
trees; the second one in a session where every function, operator and type of Postgres' has a rival that is found before it.

It knows words, not grammar, so statements keep to a few rules:
- `f(x)` is a call of a function, `given (x)` is not: the blank makes the difference.
- `operator(...)` binds more tightly than `<` and less than `-` does, so an operand of an operator stands in parentheses if it has
  operators of its own on the right: `x < (y - z)`.
- No `between`, `is distinct from`, `in (a, b)`, `not in`, `nullif`, `case x when` and `using (x)`: they look operators up, and
  cannot say in which schema. `x in (select ...)` and `like` are read as the operators that they stand for. `unnest` of several
  arrays stays as it is: the grammar knows it by this name alone, and looks nothing up.
"""

from __future__ import annotations

import re

_PART = re.compile(
    r"""
    (?P<text>   [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "[^"]*" | \$\d+ | --[^\n]* )
  | (?P<name>   [A-Za-z_]\w* )
  | (?P<number> \d+(?:\.\d+)?(?:e\d+)? )
  | (?P<sign>   [-+*/<>=~!@\#%^&|]+ )
  | (?P<space>  \s+ )
  | (?P<mark>   :: | . )
    """,
    re.VERBOSE | re.DOTALL,
)

_SYNTAX = {"any", "array", "coalesce", "exists", "extract", "greatest", "least", "row"}
"""Words of the grammar that look like the call of a function: nothing is looked up for them."""

_TYPES = {"bigint", "boolean", "int", "integer", "interval", "smallint"}
"""Types that are words of the grammar, which names their schema itself."""

_CLAUSES = {"from", "where", "returning", "select"}
"""Words that end the list of assignments of an `update`."""


def qualified(text: str) -> str:
    """Return the statement with the schema of each function, operator and type of Postgres' own."""
    return "".join(_Writer(text).written())


class _Writer:
    """One walk through the parts of a statement."""

    def __init__(self, text: str) -> None:
        self._parts = [(str(match.lastgroup), match.group()) for match in _PART.finditer(text)]
        self._before = ""  # the last part that is not blank
        self._assigning = [False]  # by depth of parentheses: the next '=' assigns, since a column of `set` stands before it
        self._listing = [False]  # by depth: we are in a list of assignments

    def written(self) -> list[str]:
        """Return the parts as they are to be written."""
        made = []
        for place, (sort, part) in enumerate(self._parts):
            made.append(self._one(place, sort, part))
            if sort != "space" and not part.startswith("--"):
                self._before = part.lower()
        return made

    def _one(self, place: int, sort: str, part: str) -> str:
        if sort == "name":
            return self._name(place, part)
        if sort == "sign":
            return self._sign(place, part)
        if part == "(":
            self._assigning.append(False)
            self._listing.append(False)
        elif part == ")" and len(self._listing) > 1:
            self._assigning.pop()
            self._listing.pop()
        elif part == ",":
            self._assigning[-1] = self._listing[-1]
        return part

    def _name(self, place: int, part: str) -> str:
        word, after = part.lower(), self._part(place + 1)
        if self._before == ".":
            return part
        if word == "set" or word in _CLAUSES:
            self._assigning[-1] = self._listing[-1] = word == "set"
        if self._before == "::":
            return part if word in _TYPES or after == "." else f"pg_catalog.{part}"
        if word == "like":
            return "operator(pg_catalog.~~)"
        if word == "in" and self._follows(place, "(", "select"):
            return "operator(pg_catalog.=) any"
        call = after == "(" and word not in _SYNTAX and not (word == "unnest" and self._several(place + 1))
        return f"pg_catalog.{part}" if call else part

    def _sign(self, place: int, part: str) -> str:
        if part == "=" and self._assigning[-1]:
            self._assigning[-1] = False
            return part
        opens = self._before in ("", "(", ",", "select", "returning") or not re.search(r"[\w\"')\]]$", self._before)
        every = part == "*" and (opens or self._before == ".")
        negative = part == "-" and opens and self._parts[place + 1][0] == "number"
        return part if part == "=>" or every or negative else f"operator(pg_catalog.{part})"

    def _follows(self, place: int, *words: str) -> bool:
        """Tell whether these words come next, with any blanks between them."""
        after = (part.lower() for sort, part in self._parts[place + 1 :] if sort != "space")
        return all(part == word for part, word in zip(after, words, strict=False))

    def _several(self, place: int) -> bool:
        """Tell whether the parentheses that open here hold more than one argument."""
        depth = 0
        for _, part in self._parts[place:]:
            depth += (part == "(") - (part == ")")
            if depth == 0 or (depth == 1 and part == ","):
                return depth == 1
        return False

    def _part(self, place: int) -> str:
        return self._parts[place][1] if place < len(self._parts) else ""

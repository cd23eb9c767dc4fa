"""Settings: the name and the colour by which people tell one dashboard from another.

Declarations, made at import and never changed; the values of a program are in its `Config`, which any thread may read.
"""

from dataclasses import dataclass

from fastq.settings.declaring import Reader, setting, word

LONGEST_NAME = 40
"""Characters of the name: it stands in one line with the titles of the pages."""

COLOURS = ("none", "blue", "green", "amber", "red", "violet")
"""Colours that are told from each other in light and in dark, each with a contrast of 4.5 for the text on it."""


def _name() -> Reader[str]:
    """Read a short text of one line."""

    def parse(text: str) -> str:
        if len(text) > LONGEST_NAME or not (text.isprintable() or not text):
            raise ValueError
        return text

    return parse, f"a name of one line, up to {LONGEST_NAME} characters, or nothing"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class InstanceSettings:
    """A group of the settings of `Config`."""

    instance_name: str = setting("", _name(), "what the dashboard calls this cluster, such as 'production'", "only you know it")
    instance_colour: str = setting(
        "none", word(*COLOURS), "the colour of that name in the dashboard", "red for production is a habit, not a rule"
    )

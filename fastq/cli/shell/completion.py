"""`fastq completion`: have a shell complete commands, their actions and their options with the Tab key.

Runs in the main thread of the command, and keeps nothing. The script that it prints for a shell asks `fastq completion words` at
each Tab, and that walks the parsers that the commands have: nothing here names a command or an option, so nothing goes stale.
It opens no database, which might start an embedded one.
"""

# ruff: noqa: SLF001 - argparse tells nowhere else which arguments a parser has; docs/reference/generate.py walks them, too

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from fastq.cli.terminal.commands import COMMANDS, parser_of
from fastq.cli.terminal.output import out

EPILOG = """\
examples:
  echo 'source <(fastq completion bash)' >> ~/.bashrc
  echo 'source <(fastq completion zsh)' >> ~/.zshrc       behind compinit
  fastq completion fish > ~/.config/fish/completions/fastq.fish

A shell that runs takes it up when its file is read again.
"""

BASH = """\
_fastq() {
    local found
    found=$(fastq completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1)
    local IFS=$'\\n'
    COMPREPLY=($found)
}
complete -o default -F _fastq fastq
"""
ZSH = """\
_fastq() {
    local -a found
    local word text
    while IFS=$'\\t' read -r word text; do
        found+=("${word//:/\\\\:}:$text")
    done < <(fastq completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#found )); then _describe fastq found; else _files; fi
}
compdef _fastq fastq
"""
FISH = """\
function __fastq_words
    set -l words (commandline --tokenize --cut-at-cursor --current-process)
    set -l begun (commandline --current-token --cut-at-cursor)
    set -l found (fastq completion words -- $words[2..] "$begun" 2>/dev/null)
    if set -q found[1]; printf '%s\n' $found; else; __fish_complete_path "$begun"; end
end
complete --command fastq --no-files --arguments '(__fastq_words)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
"""By shell. Where we know no word the shell completes the names of files."""

Word = tuple[str, str]
"""A word, and what it stands for in a few more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "shell", choices=[*SCRIPTS, "words"], help="the shell whose script is printed; words: what the scripts call"
    )
    parser.add_argument("words", nargs=argparse.REMAINDER, help="with words: those behind 'fastq', up to the one that is begun")


def main(options: argparse.Namespace) -> int:
    """Print the script of a shell, or the words that may stand where the cursor is."""
    if options.shell in SCRIPTS:
        out(SCRIPTS[options.shell].rstrip())
        return 0
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    for word, text in candidates(words):
        out(f"{word}\t{text}")
    return 0


def candidates(words: Sequence[str]) -> list[Word]:
    """Return the words that may stand in the place of the last one, which is begun and may be empty."""
    *before, begun = words or [""]
    if not before or before == ["help"]:
        found: Iterable[Word] = COMMANDS.items()
    elif before[0] in COMMANDS and before[0] not in ("bench", "help"):
        found = _behind(parser_of(before[0]), before[1:], begun)
    else:
        found = ()
    return [(word, text) for word, text in found if word.startswith(begun)]


def _behind(parser: argparse.ArgumentParser, before: Sequence[str], begun: str) -> Iterator[Word]:
    """Give the words that may follow others of a command, or of an action of it."""
    options = {word: action for action in parser._actions for word in action.option_strings}
    places = [action for action in parser._actions if not action.option_strings]
    asks: argparse.Action | None = None  # an option whose value comes next
    for at, word in enumerate(before):
        if asks is not None:
            asks = None
        elif word.startswith("-"):
            name, _, value = word.partition("=")
            asks = options[name] if name in options and options[name].nargs != 0 and not value else None
        elif places and isinstance(places[0], argparse._SubParsersAction):
            if word in places[0].choices:
                yield from _behind(places[0].choices[word], before[at + 1 :], begun)
            return
        elif places and places[0].nargs not in ("+", "*", argparse.REMAINDER):
            places = places[1:]
    if asks is not None:
        yield from _values(asks)
    elif begun.startswith("-"):
        yield from ((word, _told(action)) for word, action in options.items())
    elif places:
        yield from _values(places[0])


def _values(action: argparse.Action) -> Iterator[Word]:
    """Give the values that an option or a place can have, if these are known."""
    if isinstance(action, argparse._SubParsersAction):
        yield from ((choice.dest, choice.help or "") for choice in action._choices_actions)
    else:
        yield from ((str(choice), "") for choice in action.choices or ())


def _told(action: argparse.Action) -> str:
    """Return the help of an option, on one line."""
    return " ".join((action.help or "").replace("%%", "%").split()) if action.help != argparse.SUPPRESS else ""

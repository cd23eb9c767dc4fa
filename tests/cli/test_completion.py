"""A shell completes commands, actions, options and their values, as the parsers of the commands have them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastq.cli.shell.completion import SCRIPTS, candidates
from fastq.cli.terminal.commands import COMMANDS

PROGRAMS = Path(sys.executable).parent


def words(*before):
    return [word for word, _ in candidates(before)]


def test_the_first_word_is_a_command():
    assert words("") == list(COMMANDS)
    assert words("que") == ["queues"]
    assert words("help", "que") == ["queues"]


def test_a_command_with_actions_completes_these():
    assert words("queues", "") == ["list", "pause", "resume"]
    assert words("queues", "re") == ["resume"]


def test_options_are_those_of_the_action_that_was_named():
    assert "--until" in words("queues", "pause", "--")
    assert "--until" not in words("queues", "list", "--")
    assert "--procs" in words("run", "app:registry", "--p")


def test_a_value_is_one_of_those_that_the_option_can_have():
    assert words("jobs", "list", "--state", "dis") == ["discarded"]
    assert words("jobs", "list", "--state", "discarded", "--sta") == ["--state"]
    assert words("jobs", "list", "--limit", "") == []


@pytest.mark.parametrize(
    "before", [("nonsense", ""), ("queues", "nonsense", ""), ("queues", "pause", "emails", ""), ("bench", "")]
)
def test_where_no_word_is_known_there_is_none_and_the_shell_completes_files(before):
    assert words(*before) == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("bench", "help")])
def test_each_command_tells_of_each_of_its_options_on_one_line(name):
    found = candidates([name, "--"])

    assert all("\n" not in text and "\t" not in text for _, text in found)
    assert ("--help" in dict(found)) is True


ASKED = {
    "bash": 'COMP_WORDS=(fastq queues re); COMP_CWORD=2; _fastq; echo "${COMPREPLY[@]}"',
    "zsh": '_describe() {{ print -l "${{found[@]}}" }}; words=(fastq queues re); CURRENT=3; _fastq',
    "fish": 'complete --do-complete "fastq queues re"',
}


@pytest.mark.further
@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_that_has_read_its_script_completes_an_action(shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    script = SCRIPTS[shell] if shell != "zsh" else "compdef() { : }\n" + SCRIPTS[shell]
    environment = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    asked = subprocess.run(
        [program, "-c", f"{script}\n{ASKED[shell].replace('{{', '{').replace('}}', '}')}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert asked.stdout.split()[0].partition(":")[0] == "resume"

"""Commands in messages can be copied, whatever the names in them are."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.settings import shell_argument, shell_word

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"headgate (?:flow|stage) [a-z]+ [^`\"\n]*")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"])))
def test_a_printable_name_is_one_word(name: str) -> None:
    word = shell_word(name)
    if name.isprintable():
        assert shlex.split(word) == [name]
    assert word.isprintable()


@pytest.mark.parametrize("name", ["a;b", "$(id)", "`id`", "it's", "a\nb", "\x1b[2J'\\", "ü\u202e"])
def test_a_shell_reads_a_name_as_it_is(name: str) -> None:
    word = shell_word(name)
    assert word.isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout.decode() == name


@pytest.mark.parametrize("name", ["--yes", "-x", "- a"])
def test_a_name_is_no_option_of_the_command(name: str) -> None:
    assert shlex.split(shell_argument(name)) == ["--", name]
    assert shell_argument("air") == "air"


def test_plain_names_stay_as_they_are() -> None:
    assert shell_word("air-2_b.zones") == "air-2_b.zones"


def test_messages_quote_the_names_in_their_commands() -> None:
    found = [
        (path.name, command)
        for path in (ROOT / "agent" / "src").rglob("*.py")
        for command in COMMAND.findall(path.read_text())
        for name in re.findall(r"\{([^}]*)", command)
        if not name.startswith(("shell_word(", "shell_argument(", "quote(")) and name != "sources"
    ]
    assert found == []

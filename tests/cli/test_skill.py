"""The skill for coding agents: its commands run, in its order, and it is written by `init`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

from simkit.cli.init.files import SKILL
from tests.cli.projects import Call

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = SKILL.read_text(encoding="utf-8")


def commands() -> list[str]:
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines()]


def test_the_commands_of_the_skill_run_in_its_order(simkit: Call) -> None:
    assert len(commands()) >= 7
    for command in commands():
        _, *words = shlex.split(command)

        done = simkit(*words)

        assert done.code == 0, (command, done)


def test_the_skill_has_what_it_promises() -> None:
    rows = re.search(r"## Seven concepts\n(.*?)\n## ", TEXT, re.DOTALL)
    assert rows is not None
    assert len(re.findall(r"^\| \w", rows[1], re.MULTILINE)) == 8  # The head is one.
    assert re.findall(r"^(\d+)\. ", TEXT.partition("## Ten mistakes")[2], re.MULTILINE) == [
        str(number) for number in range(1, 11)
    ]
    assert len(TEXT.split()) < 950


def test_init_writes_the_skill_once(simkit: Call) -> None:
    first, second = simkit("init", "--skill"), simkit("init", "--skill")

    file = Path(".claude/skills/simkit/SKILL.md")
    assert (first.code, second.code) == (0, 0)
    assert file.read_text(encoding="utf-8") == TEXT
    assert first.out == f"{file}: written\n"
    assert second.out == f"{file}: there already, left as it is\n"


def test_the_pages_that_llms_txt_names_are_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text(encoding="utf-8"))

    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).is_file()] == []

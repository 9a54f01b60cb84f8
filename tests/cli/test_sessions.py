"""Sessions at the command line: what stands in a folder, what is called, and all that is printed.

Each section of a page under `sessions/` is one: it begins in a folder with a scenario that holds,
and with the files that stand above all sections. A line of standard error begins with `! `.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from simkit.adapters.recorder.carried_over import forget_all
from tests.cli.projects import Call, Done, without_times, write
from tests.golden import assert_part_is

PAGES: Final = Path(__file__).parent / "sessions"
FENCE: Final = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_PROCESSES: Final = ("serve",)
"""Pages of commands that start a program: each of their commands is a process of its own."""
SERVED: Final = (
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
)
SESSIONS: Final = [
    pytest.param(
        page,
        preamble,
        section,
        id=f"{page.stem}: {section.partition(chr(10))[0]}",
        marks=SERVED if page.stem in IN_PROCESSES else (),
    )
    for page in sorted(PAGES.glob("*.md"))
    for preamble, *sections in [re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)]
    for section in sections
]


@pytest.mark.golden
@pytest.mark.parametrize(("page", "preamble", "section"), SESSIONS)
def test_a_session_prints_what_its_page_shows(
    page: Path, preamble: str, section: str, simkit: Call, process: Call
) -> None:
    call = process if page.stem in IN_PROCESSES else simkit
    forget_all()  # A command of its own process finds nothing of earlier scenarios.

    def carry_out(block: re.Match[str]) -> str:
        kind, name, text = block.groups()
        if name:
            write(name, text)
        if kind != "console":
            return block[0]
        printed = (_printed(call, line) for line in re.findall(r"^\$ (.+)$", text, re.MULTILINE))
        return f"```console\n{''.join(printed)}```"

    FENCE.sub(carry_out, preamble)

    assert_part_is(page, section, FENCE.sub(carry_out, section))


def _printed(call: Call, command: str) -> str:
    """Carry out a command line; return it with all that it prints."""
    words = shlex.split(command)
    if words[0] == "simkit":
        done = call(*words[1:])
    else:
        ran = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
        done = Done(0, ran.stdout, ran.stderr)
    ending = "" if done.out.endswith("\n") or not done.out else "[no end of line]\n"
    errors = "".join(f"! {line}\n".replace(" \n", "\n") for line in done.err.splitlines())
    code = f"[exit code {done.code}]\n" if done.code else ""
    text = without_times(f"{done.out}{ending}{errors}").replace(str(Path.cwd()), "$PWD")
    text = re.sub(r"(?<=127\.0\.0\.1:)\d+", "PORT", text)
    return f"$ {command}\n{text}{code}"

"""The pages of commands name every option, and a shell completes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from simkit.cli.commands import cli
from simkit.cli.commands.options import SECTIONS, Words

PAGES = sorted((Path(__file__).parents[2] / "docs/reference").glob("commands*.md"))
EVERYWHERE = {"--help"}
"""Options that the page names once, for all commands."""


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for key, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {key}")
        else:
            yield f"{name} {key}", command


COMMANDS = dict(commands(cli, "simkit"))


def section_of(name: str) -> str:
    """Return the section of the pages whose heading names the command."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    return next((text for text in sections if f"`{name} " in text.partition("\n")[0]), "")


def _is_common(option: click.Option) -> bool:
    """Whether it is the ``--format json`` that each command has."""
    choices = getattr(option.type, "choices", ())
    return option.name == "form" and {*choices} <= {"text", "table", "json"}


@pytest.mark.parametrize("name", COMMANDS)
def test_page_names_each_option(name: str) -> None:
    section = section_of(name)
    options = [
        option
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option)
        and not parameter.hidden
        and not _is_common(parameter)
        for option in [*parameter.opts, *parameter.secondary_opts]
        if option.startswith("--") and option not in EVERYWHERE
    ]

    missing = [option for option in options if option not in section]

    assert section, f"write a section `{name}` in docs/reference/commands.md"
    assert missing == [], f"write them under `{name}` in docs/reference/commands.md"


def test_headings_of_the_help_hold_what_there_is() -> None:
    assert {name for some in SECTIONS.values() for name in some} == {*cli.commands}


BASH = shutil.which("bash") or ""


def environment(**more: str) -> dict[str, str]:
    """An environment in which `simkit` is this one's."""
    folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": os.pathsep.join([folder, os.environ.get("PATH", "")]), **more}


def completed(*words: str, folder: Path) -> list[str]:
    """Return what bash would offer after these words."""
    listed = " ".join(f"'{word}'" for word in words)
    script = (
        'eval "$(_SIMKIT_COMPLETE=bash_source simkit)"\n'
        'compopt() { echo "let bash complete: $2"; }\n'
        f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}\n"
        "_simkit_completion simkit\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [BASH, "--norc", "-c", script],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.slow
@pytest.mark.skipif(not BASH, reason="needs bash")
def test_bash_completes_commands_options_and_ids(tmp_path: Path) -> None:
    assert completed("simkit", "rep", folder=tmp_path) == ["replay"]
    assert completed("simkit", "replay", "--sh", folder=tmp_path) == ["--show"]
    assert completed("simkit", "replay", "--show", "co", folder=tmp_path) == ["context"]
    assert completed("simkit", "explain", "HND-1", folder=tmp_path) == [
        "HND-10",
        "HND-11",
        "HND-12",
        "HND-13",
        "HND-14",
    ]


COMMANDS_WITH_FILES = [
    "cassettes", "coverage", "diff", "doctor", "expect", "judge", "mutate", "record", "replay",
    "serve", "validate",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not BASH, reason="needs bash")
@pytest.mark.parametrize("command", COMMANDS_WITH_FILES)
def test_bash_completes_the_names_of_files(tmp_path: Path, command: str) -> None:
    assert "let bash complete: default" in completed("simkit", command, "ref", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_that_the_docs_name_gets_a_script(shell: str) -> None:
    done = subprocess.run(
        ["simkit"],
        env=environment(_SIMKIT_COMPLETE=f"{shell}_source"),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0
    assert f"_SIMKIT_COMPLETE={shell}_complete" in done.stdout


def test_every_choice_of_a_command_answers_a_wrong_word_with_the_nearest() -> None:
    types = [each.type for _, command in commands(cli, "simkit") for each in command.params]
    choices = [each for each in types if isinstance(each, click.Choice)]

    assert len(choices) > 20
    for choice in choices:
        assert isinstance(choice, Words)
        with pytest.raises(click.BadParameter, match=rf"Did you mean `{choice.choices[0]}`\?"):
            choice.convert(f"{choice.choices[0]}s", None, None)

"""The page of commands has a section for each command, which names its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from simkit.cli.commands import cli

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
EVERYWHERE = {"--help"}


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    for key, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {key}")
        else:
            yield f"{name} {key}", command


COMMANDS = dict(commands(cli, "simkit"))


def section_of(name: str) -> str:
    """Return the section of the page whose heading names the command."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return next((text for text in sections if f"`{name} " in text.partition("\n")[0]), "")


@pytest.mark.parametrize("name", COMMANDS)
def test_page_names_each_option(name: str) -> None:
    section = section_of(name)
    options = [
        option
        for parameter in COMMANDS[name].params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in [*parameter.opts, *parameter.secondary_opts]
        if option.startswith("--") and option not in EVERYWHERE
    ]

    missing = [option for option in options if option not in section]

    assert section, f"docs/reference/commands.md has no section `{name}`"
    assert missing == [], f"docs/reference/commands.md does not name them under `{name}`"

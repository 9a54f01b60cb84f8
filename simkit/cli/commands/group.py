"""The command `simkit`, of which all others are commands."""

from __future__ import annotations

import os
from typing import Final

import click

from simkit.core.errors import DirectoryGone

TRACEBACK_VARIABLE: Final = "SIMKIT_TRACEBACK"


class _Group(click.Group):
    """A group that suggests the nearest command for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word not in self.commands and not word.startswith("-"):
            # Imported here because most commands are spelled correctly.
            from simkit.language.yaml import near

            hint = near(word, self.commands)
            advice = f" Did you mean `{hint}`?" if hint else ""
            known = ", ".join(sorted(self.commands))
            raise click.UsageError(f"There is no command `{word}`.{advice} Known: {known}.", ctx)
        return super().resolve_command(ctx, args)


def _version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from simkit import __version__
        from simkit.core.output import echo

        echo(f"simkit {__version__}")
        ctx.exit()


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`simkit COMMAND --help` says more. Exit codes: 0 all held, 1 findings, 2 broken.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
@click.option(
    "--traceback",
    "wants_traceback",
    is_flag=True,
    envvar=TRACEBACK_VARIABLE,
    help="Show the traceback if simkit itself fails.",
)
def cli(wants_traceback: bool) -> None:
    """Test what every agent of a multi-agent pipeline is sent: declaratively, offline, the same
    every time."""
    try:
        os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    if wants_traceback:
        # Worker processes read it, too.
        os.environ[TRACEBACK_VARIABLE] = "1"

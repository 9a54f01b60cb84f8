"""The command `simkit`, and the arguments and options that several of its commands have."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from simkit.core.answers import current_answer
from simkit.core.errors import DirectoryGone
from simkit.core.text import guess, likely_word

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class Words(click.Choice[str]):
    """A choice of words; the error about another one names the nearest."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return super().get_invalid_choice_message(value, ctx) + guess(str(value), self.choices)


class WholeNumber(click.IntRange):
    """A whole number; click would call another word no valid integer range."""

    name = "whole number"


class FiniteNumber(click.FloatRange):
    """A finite number: click lets ``nan`` pass, which is neither below nor above any limit."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


def complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the names of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def complete_id(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the ids that `simkit explain` knows, in any case."""
    from simkit.spec.lint_catalogue import explanations

    return [
        CompletionItem(entry.id, help=entry.name or None)
        for entry in explanations().values()
        if entry.id.lower().startswith(incomplete.lower())
    ]


def flag(names: str, help: str) -> Callable[[CommandT], CommandT]:
    """Return an option without a value; ``names`` are apart by spaces."""
    return click.option(*names.split(), is_flag=True, help=help)


def word_option(names: str, metavar: str, help: str) -> Callable[[CommandT], CommandT]:
    """Return an option with a text, which is empty without it."""
    return click.option(*names.split(), default="", metavar=metavar, help=help)


def words_option(names: str, metavar: str, help: str) -> Callable[[CommandT], CommandT]:
    """Return an option that may be given several times."""
    return click.option(*names.split(), multiple=True, metavar=metavar, help=help)


def form_option(*forms: str, help: str | None = None) -> Callable[[CommandT], CommandT]:
    """Return ``--format``, whose default is the first form."""
    return click.option(
        "--format", "form", type=Words(forms), default=forms[0], show_default=True, help=help
    )


def file_option(help: str) -> Callable[[CommandT], CommandT]:
    """Return ``-o``; the file is empty without it."""
    return click.option(
        "-o", "file", type=click.Path(dir_okay=False), default="", metavar="FILE", help=help
    )


def processes_option(help: str) -> Callable[[CommandT], CommandT]:
    """Return ``-j``."""
    return click.option("-j", "processes", type=WholeNumber(min=1), default=1, help=help)


SHOW: Final = click.option(
    "--show",
    type=Words(["context", "state", "events"]),
    default=None,
    callback=lambda context, parameter, value: value or "",
    help="Show every model call's messages, the state after each turn, or all events.",
)
QUIET: Final = flag("-q quiet", "Print only what fails, and the last line.")
FITTING: Final = click.option(
    "-k", "expression", default="", help="Run only what fits: words, and, or, not, ()."
)
BASE: Final = word_option(
    "--base", "DIR", "Compare with the traces of this folder, such as those of the base branch."
)
STRICT: Final = flag("--strict", "Warnings, and claims that were not looked at, end with 1.")
FAIL_UNDER: Final = click.option(
    "--fail-under",
    type=FiniteNumber(0, 100),
    default=0.0,
    metavar="PERCENT",
    help="End with 1 if the share is smaller.",
)
PATHS: Final = click.argument(
    "paths", nargs=-1, metavar="[PATH[::NAME]]...", shell_complete=complete_file
)
TRACEBACK_VARIABLE: Final = "SIMKIT_TRACEBACK"


class _Command(click.Command):
    """A command; each has ``--format json``, whose answer `simkit.core.answers` describes."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if all(parameter.name != "form" for parameter in self.params):
            self.params.append(
                click.Option(
                    ["--format", "form"],
                    type=Words(["text", "json"]),
                    default="text",
                    show_default=True,
                    expose_value=False,
                    help="json for programs.",
                )
            )

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **more: Any,
    ) -> click.Context:
        """Name the command in the answer, also if its arguments are wrong."""
        if (answer := current_answer()) is not None and parent is not None:
            answer.command = f"{parent.command_path} {info_name}".partition(" ")[2]
        return super().make_context(info_name, args, parent, **more)


SECTIONS: Final = {
    "Write tests": ("init", "expect", "import"),
    "Check and run": ("validate", "replay", "live", "record", "serve"),
    "Search": ("explore", "mutate", "coverage"),
    "Look at runs": ("judge", "diff", "view", "graph", "export"),
    "Look up": ("explain", "doctor", "schema", "bdd", "cassettes", "mcp"),
}
"""Headings of the help, each with its commands."""


class _Group(click.Group):
    """A group that suggests the nearest command for an unknown one."""

    command_class = _Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under headings; those under none stand at the end."""
        listed = {name for names in SECTIONS.values() for name in names}
        others = tuple(name for name in sorted(self.commands) if name not in listed)
        limit = formatter.width - 6 - max(map(len, self.commands))
        for heading, names in (*SECTIONS.items(), ("Commands", others)):
            group = [name for name in names if name in self.commands]
            if group:
                with formatter.section(heading):
                    formatter.write_dl(
                        [(name, self.commands[name].get_short_help_str(limit)) for name in group]
                    )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word not in self.commands and not word.startswith("-"):
            likely, known = likely_word(word, self.commands, "commands"), sorted(self.commands)
            hint = f" Did you mean `{likely}`?" if likely else ""
            raise click.UsageError(
                f"There is no command `{word}`.{hint} Known: {', '.join(known)}.", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`simkit COMMAND --help` says more. Exit codes: 0 all passed, 1 findings, 2 errors.",
)
@click.version_option(
    package_name="agent-simkit",
    prog_name="simkit",
    message="%(prog)s %(version)s",
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
    """Test and simulate what every agent of a multi-agent pipeline is sent: declaratively, offline,
    the same every time."""
    try:
        os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    if wants_traceback:
        # Worker processes read it, too.
        os.environ[TRACEBACK_VARIABLE] = "1"

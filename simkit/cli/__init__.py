"""The command line. Every command has its own module, which is imported on use.

Exit codes: 0 all held, 1 findings, 2 a file, the script or the command line was wrong, 130 stopped
by the user, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from simkit.core.errors import DirectoryGone, OutputFailed, OutputUnread, SimkitError, Terminated
from simkit.core.requirements import missing_package, was_asked_by_simkit
from simkit.core.stopping import TERMINATED, terminable

COMMANDS: Final = {
    "bdd": "List what the lines of a feature file may say.",
    "diff": "Compare traces, or a scenario on two pipelines: what each agent was sent.",
    "expect": "Write a first full set of claims for turns that have none.",
    "explain": "Explain a finding or an error by its id: cause and fix.",
    "init": "Write the first test of an app, or a sample project.",
    "judge": "Hold stored traces against today's claims and lints; nothing runs.",
    "cassettes": "List recorded traffic that no scenario uses, is old, or holds a secret.",
    "doctor": "Say which client libraries are here, and what of them is seen.",
    "record": "Run scenarios with real traffic, and keep it as cassettes.",
    "replay": "Run scenarios; show what every agent was sent, and what does not hold.",
    "serve": "Answer programs in other languages from a scenario, on this machine's own network.",
    "schema": "Print the JSON Schema of scenario and pipeline files, for editors.",
    "validate": "Check files without running anything.",
}
"""Command to its line in the help; ``simkit.cli.<name>`` has it, as ``command``."""

BROKEN: Final = 2
STOPPED: Final = 130
UNREAD: Final = 141
"""The exit code of a program whose reader closed the stream, as shells count SIGPIPE."""
TRACEBACK_VARIABLE: Final = "SIMKIT_TRACEBACK"


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"simkit.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word not in COMMANDS and not word.startswith("-"):
            # Imported here because most commands are spelled correctly.
            from simkit.language.yaml import near

            hint = near(word, COMMANDS)
            advice = f" Did you mean `{hint}`?" if hint else ""
            raise click.UsageError(
                f"There is no command `{word}`.{advice} Known: {', '.join(sorted(COMMANDS))}.", ctx
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def _version(ctx: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from simkit import __version__
        from simkit.core.output import echo

        echo(f"simkit {__version__}")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; every error ends in one clear text on stderr."""
    # Python has None in place of a stream that was closed at the start.
    is_closed = sys.stdout is None
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if is_closed:
        _say("stdout is closed: there is nowhere to write to")
        sys.exit(BROKEN)
    with terminable():
        code = _exit_code(arguments)
    sys.exit(code)


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        code = cli.main(
            list(arguments) if arguments is not None else None,
            prog_name="simkit",
            standalone_mode=False,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (BrokenPipeError, OutputUnread):
        # The reader has closed the stream. The rest may have failed or held: neither 0 nor 1.
        _leave(sys.stdout)
        return UNREAD
    except OutputFailed as problem:
        _leave(sys.stdout)
        _say(str(problem))
        return BROKEN
    except SimkitError as problem:
        _say(str(problem))
        return BROKEN
    except (KeyboardInterrupt, click.exceptions.Abort) as problem:
        _say("stopped")
        is_told = isinstance(problem, Terminated) or isinstance(problem.__cause__, Terminated)
        return TERMINATED if is_told else STOPPED
    except click.ClickException as problem:
        output = io.StringIO()
        problem.show(file=output)
        _say(output.getvalue().rstrip("\n"))
        return BROKEN
    except Exception as problem:
        _say(bug_text(problem, "simkit --traceback …"))
        return BROKEN


def _say(text: str) -> None:
    """Write a text on stderr, if that is possible."""
    from simkit.core.output import echo

    try:
        echo(text, err=True)
    except (OSError, OutputFailed):
        _leave(sys.stderr)


def _leave(stream: Any) -> None:
    """Discard the rest of a stream, so that nothing fails at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def bug_text(problem: BaseException, again: str) -> str:
    """Return the text about a bug in simkit, with the traceback if the user asked for it.

    An error of the system (a name too long, a folder in place of a file) is no bug, and neither is
    a package that was removed.
    """
    if os.environ.get(TRACEBACK_VARIABLE):
        return "".join(traceback.format_exception(problem)).rstrip()
    if (lacking := missing_package(problem)) and was_asked_by_simkit(problem):
        return lacking
    if isinstance(problem, OSError):
        why = problem.strerror or str(problem) or type(problem).__name__
        return f"{problem.filename}: {why}" if problem.filename else why
    if isinstance(problem, ValueError) and "null" in str(problem) and "embedded" in str(problem):
        return f"the name of a file cannot be: {problem}"
    problem_text = f"{type(problem).__name__}: {problem}".rstrip(": ")
    return (
        f"simkit itself failed: {problem_text}\n"
        "  This is a bug in simkit. Please report it with the traceback, which this prints:\n"
        f"  {again}"
    )

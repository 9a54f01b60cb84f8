"""The command line: every failure ends in one clear text and an exit code.

Exit codes: 0 all held, 1 findings, 2 a file, the script or the command line was wrong, 130 stopped
by the user, 143 stopped by SIGTERM.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import click

from simkit.cli.commands import TRACEBACK_VARIABLE, cli
from simkit.core import stopping
from simkit.core.answers import answering, refuse, wants_json
from simkit.core.errors import OutputFailed, OutputUnread, SimkitError, Terminated
from simkit.core.requirements import missing_package, was_asked_by_simkit

STOPPED: Final = 130
UNREAD: Final = 141
"""The exit code of a program whose reader closed the stream, as shells count SIGPIPE."""


class Command:
    """The command that this process runs."""

    owns_process = False
    """Whether the process runs nothing else: then scenarios of code run in copies of it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; every error ends in one clear text on stderr.

    With ``arguments``, the process is the caller's, and all runs in it.
    """
    Command.owns_process = arguments is None
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
        sys.exit(stopping.BROKEN)
    with stopping.terminable(), stopping.interruptible(), stopping.sudden_end_told():
        try:
            code = _exit_code(arguments)
        except KeyboardInterrupt as problem:  # The signal came while an error was printed.
            code = _stopped_code(problem)
    sys.exit(code)


def _exit_code(arguments: Sequence[str] | None) -> int:
    """Run a command; return its exit code. A program that asked for JSON gets one object."""
    words = None if arguments is None else list(arguments)
    run = partial(cli.main, words, prog_name="simkit", standalone_mode=False)
    if not wants_json(sys.argv[1:] if words is None else words):
        return _outcome(run)
    from simkit import __version__
    from simkit.core.output import echo_json

    with answering() as answer:
        code = _outcome(run)

    def tell() -> int:
        echo_json(answer.text(__version__, code))
        return code

    return code if code == UNREAD else _outcome(tell)


def _outcome(run: Callable[[], object]) -> int:
    """Run a command; return its exit code, which is a signal's if one came before it failed."""
    try:
        code = run()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (BrokenPipeError, OutputUnread):
        # The reader has closed the stream. The rest may have failed or held: neither 0 nor 1.
        _leave(sys.stdout)
        return UNREAD
    except OutputFailed as problem:
        _leave(sys.stdout)
        _say(str(problem))
        return stopping.BROKEN
    except (KeyboardInterrupt, click.exceptions.Abort) as problem:
        signal = problem.__cause__ or problem
        refuse(signal, "stopped")
        _say("stopped")
        return _stopped_code(signal)
    except click.ClickException as problem:
        output = io.StringIO()
        problem.show(file=output)
        refuse(problem, problem.format_message())
        _say(output.getvalue().rstrip("\n"))
        return stopping.BROKEN
    except (Exception, BaseExceptionGroup) as problem:
        is_stop = stopping.stop_in(problem) is not None
        text = str(problem)
        if not isinstance(problem, SimkitError):
            text = bug_text(problem, "simkit --traceback …")
        refuse(problem, text)
        if isinstance(problem, SimkitError) or not is_stop or os.environ.get(TRACEBACK_VARIABLE):
            _say(text)
        if is_stop:
            _say("stopped")
            return _stopped_code(problem)
        return stopping.BROKEN


def _stopped_code(problem: BaseException) -> int:
    return stopping.TERMINATED if stopping.stop_in(problem) is Terminated else STOPPED


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

"""The terminal of a program that reads the user's messages itself: by `input()`, or from stdin.

`at_terminal` replaces the terminal of the whole process; the context variable says which program
reads or prints. Code of no program has the real terminal.
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import getpass
import io
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from simkit.capture.http.installing import Installation, Replacement
from simkit.core.context_values import Inside
from simkit.core.errors import RunHalted, SimkitError

WIDTH: Final = "200"
"""Columns of the terminal: libraries that fill lines fill them the same everywhere."""
_READS_AFTER_END: Final = 3
"""How often a program may ask for input that is over before it is held: some ask for ever."""
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Colours, cursors, titles, links: what a terminal does not show as text."""
_DEBUGGERS: Final = frozenset(("bdb", "cmd", "pdb"))
"""Modules that print for debugging, not for the program's user."""


class ProgramClosed(SystemExit):
    """Ends a program that waits for input after the last turn, as `exit()` does.

    It is not the end of input, at which some programs ask a question of their own: what a program
    does then is part of no turn.
    """


class Terminal:
    """The lines that one program reads, and the text that it prints."""

    is_screen: ClassVar[bool] = True
    """Whether what is printed is taken down here."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: deque[str] = deque()
        self.is_unread = False
        """Whether nothing of the turn's text has been read."""
        self._is_waiting = False
        self._has_ended = False
        self.is_closed = False
        """Whether there is no more to read."""
        self._is_at_end = False
        """Whether all that there is was read, up to the end of input."""
        self._reads_after_end = 0
        self._printed: list[str] = []
        self._has_prompt = False
        """Whether what was printed last was followed by a prompt of its own."""

    # Calls of the driver

    def enter(self, text: str) -> None:
        """Let the program read a text, line by line."""
        with self._changed:
            self._lines.extend(text.split("\n"))
            self.is_unread, self._is_waiting = True, False
            self._changed.notify_all()

    def wait(self) -> bool:
        """Wait until the program asks for more than it was given; return False if it has ended."""
        with self._changed:
            while not self._has_ended and not (self._is_waiting and not self._lines):
                self._changed.wait()
            return not self._has_ended

    def printed(self) -> str:
        """Return what the program has printed since it read the first line, as a text.

        Without colours, empty lines around it, and what asks for the next line.
        """
        with self._changed:
            lines = [_screen_text(line) for line in "".join(self._printed).split("\n")]
        if lines[-1] and any(lines[:-1]) and not self._has_prompt:
            lines.pop()  # `print("You: ", end="")`
        return "\n".join(lines).strip("\n").rstrip()

    def close(self) -> None:
        """Let every present and later read of a line raise ProgramClosed."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()

    # Calls of the program

    def read_line(self, prompt: str | None = None) -> str | None:
        """Return the next line, without its end; None at the end of input."""
        with self._changed:
            self._has_prompt = bool(prompt and prompt.strip())
            if self._is_at_end:
                return None
            self._wait_for_line()
            line = self._lines.popleft()
            if self.is_unread:
                self.is_unread = False
                self._printed.clear()
            return line

    def read_all(self) -> str:
        """Return all that there is to read in this turn; after it, input is at its end."""
        lines = [self.read_line()]
        with self._changed:
            lines += self._lines
            self._lines.clear()
            self._is_at_end = True
        return "".join(f"{line}\n" for line in lines if line is not None)

    def _wait_for_line(self) -> None:
        self._is_waiting = not self._lines
        self._changed.notify_all()
        while not self._lines:
            if self.is_closed:
                self._reads_after_end += 1
                if self._reads_after_end < _READS_AFTER_END:
                    raise ProgramClosed
            self._changed.wait()
        self._is_waiting = False

    def write(self, text: str) -> None:
        """Take down what the program prints."""
        with self._changed:
            self._printed.append(text)

    def end(self) -> None:
        """Note that the program has ended."""
        with self._changed:
            self._has_ended = self._has_prompt = True
            self._changed.notify_all()


class Unmanned(Terminal):
    """The terminal of code that is no program: who reads from it cannot go on."""

    is_screen = False

    def __init__(self, problem: Callable[[], SimkitError]) -> None:
        super().__init__()
        self._problem = problem
        self.was_read = False
        """Whether anybody wanted to read."""

    def read_line(self, prompt: str | None = None) -> str | None:
        """Raise RunHalted."""
        self.was_read = True
        raise RunHalted(self._problem())


def _screen_text(line: str) -> str:
    """Return what is left of a line on a screen: what is written over its beginning counts."""
    return _ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2].rstrip()


_current: Final = contextvars.ContextVar[Terminal | None]("simkit_terminal", default=None)


@contextmanager
def at_terminal(terminal: Terminal) -> Iterator[None]:
    """Let the code inside, and what it starts, read from this terminal and print to it."""
    with terminals, Inside(_current, terminal):
        yield


def use_terminal(terminal: Terminal) -> None:
    """Let this context read from a terminal and print to it, for as long as it lives."""
    _current.set(terminal)


def _terminal() -> Terminal | None:
    """Return the terminal of the code that called; None for code that belongs to no program."""
    terminal = _current.get()
    if terminal is None:
        return None
    caller = sys._getframe(2).f_globals.get("__name__")
    return None if caller in _DEBUGGERS else terminal


def _input(before: Replacement) -> Replacement:
    def input(prompt: object = "", /) -> str:
        terminal = _terminal()
        if terminal is None:
            text: str = before(prompt)
            return text
        line = terminal.read_line(str(prompt))
        if line is None:
            raise EOFError("EOF when reading a line")
        return line

    return input


def _getpass(before: Replacement) -> Replacement:
    def getpass(prompt: str = "Password: ", stream: Any = None, **more: Any) -> str:
        terminal = _terminal()
        if terminal is None:
            text: str = before(prompt, stream, **more)
            return text
        return terminal.read_line(prompt) or ""

    return getpass


def _signal(before: Replacement) -> Replacement:
    def take_signal(number: int, handler: Any, /) -> Any:
        # Only the main thread may, and a program runs beside it.
        return before(number, handler) if _terminal() is None else signal.getsignal(number)

    return take_signal


def _signal_in_loop(before: Replacement) -> Replacement:
    def add_signal_handler(self: Any, number: int, callback: Any, *args: Any) -> None:
        if _terminal() is None:
            before(self, number, callback, *args)

    return add_signal_handler


class _Stream(io.TextIOBase):
    """Stands in for a stream of the process."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, original: Any) -> None:
        self._original = original

    def fileno(self) -> int:
        terminal = _terminal()
        if terminal is not None and terminal.is_screen:
            raise io.UnsupportedOperation("fileno")
        number: int = self._original.fileno()
        return number

    def close(self) -> None:
        """Leave it open: it is the process's, and `exit()` would close it."""

    def reconfigure(self, **changes: Any) -> None:
        """Leave it as it is: it takes every text."""

    def __getattr__(self, name: str) -> Any:
        if name == "buffer" and _terminal() is not None:
            return _Bytes(self)
        return getattr(self._original, name)


class _Stdin(_Stream):
    """Stands in for `sys.stdin`."""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        terminal = _terminal()
        if terminal is None:
            line: str = self._original.readline(size)
            return line
        text = terminal.read_line()
        return "" if text is None else f"{text}\n"

    def read(self, size: int | None = -1, /) -> str:
        terminal = _terminal()
        if terminal is None:
            text: str = self._original.read(size)
            return text
        return terminal.read_all()

    def isatty(self) -> bool:
        return _terminal() is not None or bool(self._original.isatty())

    def readable(self) -> bool:
        return True


class _Bytes(io.RawIOBase):
    """The byte stream behind a replaced text stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readline(self, size: int | None = -1, /) -> bytes:
        line: str = self._stream.readline()
        return line.encode()

    def read(self, size: int = -1, /) -> bytes:
        text: str = self._stream.read()
        return text.encode()

    def write(self, data: Any, /) -> int:
        self._stream.write(bytes(data).decode(errors="replace"))
        return len(data)


class _Output(_Stream):
    """Stands in for a stream to which a program prints."""

    def flush(self) -> None:
        self._original.flush()

    def isatty(self) -> bool:
        return bool(self._original.isatty())

    def writable(self) -> bool:
        return True


class _Stdout(_Output):
    """Stands in for `sys.stdout`."""

    def write(self, text: str, /) -> int:
        terminal = _terminal()
        if terminal is None or not terminal.is_screen:
            self._original.write(text)
        else:
            terminal.write(text)
        return len(text)

    def isatty(self) -> bool:
        return _terminal() is None and super().isatty()


class _Stderr(_Output):
    """Stands in for `sys.stderr`: simkit drops what a program prints when it is ended."""

    def fileno(self) -> int:
        # It is no part of the screen: a child may write there (`stdio_client(errlog=sys.stderr)`).
        number: int = self._original.fileno()
        return number

    def write(self, text: str, /) -> int:
        terminal = _terminal()
        if terminal is None or not terminal.is_closed:
            self._original.write(text)
        return len(text)


def _rows() -> Iterator[tuple[Any, str, Any]]:
    yield builtins, "input", _input
    yield getpass, "getpass", _getpass
    yield signal, "signal", _signal
    yield sys, "stdin", _Stdin
    yield sys, "stdout", _Stdout
    yield sys, "stderr", _Stderr
    yield sys, "argv", lambda before: ["program"]
    loop = getattr(getattr(asyncio, "unix_events", None), "_UnixSelectorEventLoop", None)
    if loop is not None:
        yield loop, "add_signal_handler", _signal_in_loop


terminals: Final = Installation(_rows)
"""A context manager; may be entered by several scenarios at once."""

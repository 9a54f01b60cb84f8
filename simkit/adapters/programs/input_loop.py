"""Programs that read the user's messages themselves, by `input()`: each turn's text is typed in.

A program runs in a thread of its own, one for each session. In a turn the driver types the user's
text, line by line, and waits until the program asks for more, or ends: what was printed meanwhile
is the reply. A program that waits for more after the last turn is ended there.
"""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simkit.adapters.concurrency.pools import wait_for_rest
from simkit.adapters.entry import Caller, check_called_alone, home_of, made_by, method_of
from simkit.adapters.environment import forget_modules
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver
from simkit.adapters.modules import entry_of, module_missing
from simkit.adapters.programs.terminal import Terminal, terminals, use_terminal
from simkit.core.errors import FunctionFailed, FunctionMissing
from simkit.runtime.functions import work_folder_on_path
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App

_END_S: Final = 1.0
"""How long a program that is ended may take to end. One whose threads wait for each other never
does, as it would not at the end of input."""


class InputLoopDriver(FrameworkDriver):
    """Runs a program that is a loop around `input()`."""

    name = "python"
    app_options = ("call", "input")

    def __init__(self, app: App, adapter_context: AdapterContext) -> None:
        """Raises FunctionMissing where there is no such program."""
        self._app, self._adapter_context = app, adapter_context
        self._start = _program_of(app)
        self._programs: dict[str, _Program] = {}

    def run_turn(self, turn: UserTurn) -> str | None:
        """Type the user's text; return what the program prints until it asks for more."""
        if turn.resumes:
            raise self._adapter_context.asks_nothing(
                f"which `{self._app.entry}` cannot make: a program that asks for more input is "
                "answered by the next turn's text."
            )
        with terminals:
            program = self._programs.get(turn.session)
            if program is None:
                program = _Program(
                    self._app.entry, self._start, self._adapter_context.caller.caller_for_thread()
                )
                self._programs[turn.session] = program
                program.start()
            return program.reply_to(turn.text, self._adapter_context.recorder.turn)

    def restart(self) -> None:
        """End all programs; each starts again, with new modules, in its session's next turn."""
        self.close()
        self._programs.clear()
        self._start = _program_of(self._app, is_anew=True)

    def close(self) -> None:
        """End the programs that wait for more input."""
        with terminals:
            for program in self._programs.values():
                program.close()


class _Program:
    """One run of a program, in a thread of its own."""

    def __init__(self, entry: str, start: Callable[[], Any], caller: Caller) -> None:
        self._entry, self._start, self._caller = entry, start, caller
        self._terminal = Terminal()
        self._problem: BaseException | None = None
        self._last_turn = 0
        """The turn in which it ended."""
        # One that does not end must not keep the process.
        self._thread = threading.Thread(target=self._run, name=f"program {entry}", daemon=True)

    def start(self) -> None:
        """Start it."""
        self._thread.start()

    def reply_to(self, text: str, turn: int) -> str | None:
        """Type a text; return what is printed until the program asks for more, or ends.

        Raises what it raised, or FunctionFailed if it does not read the text at all.
        """
        if self._last_turn:
            raise FunctionFailed(
                f"`{self._entry}` ended in turn {self._last_turn}, and reads no more messages"
            )
        self._terminal.enter(text)
        is_running = self._terminal.wait()
        wait_for_rest()  # Another thread than the one that reads may answer.
        if not is_running:
            self._last_turn = turn
            if self._problem is not None:
                raise self._problem
            if self._terminal.is_unread:
                raise FunctionFailed(f"`{self._entry}` ended without reading a message")
        return self._terminal.printed() or None

    def close(self) -> None:
        """End it, if it waits for input."""
        self._terminal.close()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        use_terminal(self._terminal)
        try:
            self._caller.call(self._start)
        except SystemExit as problem:
            if problem.code not in (None, 0):
                self._problem = problem
        except BaseException as problem:
            self._problem = problem
        finally:
            with suppress(BaseException):
                self._caller.close()
            self._terminal.end()


def _program_of(app: App, *, is_anew: bool = False) -> Callable[[], Any]:
    """Return what starts a program; raise FunctionMissing where nothing of the name does.

    ``is_anew`` imports its modules again.
    """
    module, _, name = app.entry.partition(":")
    if is_anew:
        forget_modules(home_of(app.entry))
    if not name:
        return partial(_run_as_program, _prepared_module(app, module))
    subject = entry_of(app)
    if not inspect.isclass(subject):
        start = method_of(app.entry, subject, app.options.call)
        check_called_alone(app.entry, start)
        return start

    def make_and_start() -> Any:
        program = made_by(app.entry, subject, lambda factory: factory())
        return method_of(app.entry, program, app.options.call)()

    return make_and_start


def _prepared_module(app: App, module: str) -> ModuleSpec:
    """Return where the module of a program is; make it known by its name, though it did not run."""
    work_folder_on_path()
    try:
        spec = find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{module}.__main__")
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.has_location:
        raise FunctionMissing(module_missing(app), app.entry)
    # Its imports show which frameworks it uses.
    sys.modules[spec.name] = module_from_spec(spec)
    return spec


def _run_as_program(spec: ModuleSpec) -> None:
    """Run a module as `python -m` does, but under its own name, by which its classes are found."""
    module: ModuleType = module_from_spec(spec)
    sys.modules[spec.name] = module
    file = str(spec.origin)
    tree = _AsMain().visit(ast.parse(Path(file).read_bytes(), file))
    exec(compile(ast.fix_missing_locations(tree), file, "exec"), vars(module))


class _AsMain(ast.NodeTransformer):
    """Answers `__name__ == "__main__"` with yes."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [node.left, *node.comparators]
        named = any(isinstance(o, ast.Name) and o.id == "__name__" for o in operands)
        main = any(isinstance(o, ast.Constant) and o.value == "__main__" for o in operands)
        if not (named and main and len(operands) == 2):
            return node
        return ast.copy_location(ast.Constant(isinstance(node.ops[0], ast.Eq)), node)

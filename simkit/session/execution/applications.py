"""A process of its own for each scenario of code: what one leaves behind reaches no other.

It is a copy of a process that has imported the application and run nothing. If a copy would share
something with the next one, or where processes cannot be copied, it imports the application itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

from simkit.capture.http.refusals import refusals_in
from simkit.checks.judge import Judgement
from simkit.core.errors import SimkitError
from simkit.session.execution.own_process import LateRefusal, call_in_own_process
from simkit.session.workers import (
    ApplicationProcess,
    Worker,
    WorkerDied,
    can_fork,
    check_copyable,
    fork_application,
    is_watched,
    start_copy,
    start_worker,
)
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.trace.store import Trace

MODULES: Final = ("simkit.session.execution.applications", "simkit.session.simulate")
"""The modules of a new interpreter, where processes cannot be copied."""

SILENCE_MAX_S: Final = 300.0
"""The seconds after which a scenario's process is ended if its run records no further event."""

_Key: TypeAlias = tuple[object, ...]


class OwnProcesses:
    """The application processes of a command, which end with `close`.

    Make it before user code runs in this process, and before it has another thread.
    """

    def __init__(
        self, apps: Iterable[App], keeps_keys: bool = False, *, copies_this: bool = False,
        silence_s: float | None = None,
    ) -> None:  # fmt: skip
        """``keeps_keys`` leaves API keys in the environment, for real traffic.

        With ``copies_this``, there is a process without an application, too. Real traffic may take
        as long as it likes, unless there is a ``silence_s``.
        """
        self._by_app: dict[_Key, ApplicationProcess] = {}
        self._cold: ApplicationProcess | None = None
        """A process that has imported no application."""
        self._imported: set[_Key | None] = set()
        """Those that are imported by now, or just are."""
        self._libraries_known: set[_Key | None] = set()
        self._working: set[Worker] = set()
        self._is_closed = False
        self._silence_s = silence_s if keeps_keys else SILENCE_MAX_S
        apps_by_key = {_key_of(app): app for app in apps}
        if not (apps_by_key or copies_this) or not can_fork() or is_watched():
            return
        self._cold = fork_application(check_copyable)
        for key, app in apps_by_key.items():
            is_cold = app.imports_itself
            prepare = check_copyable if is_cold else partial(_prepare, app, keeps_keys)
            self._by_app[key] = fork_application(prepare)

    def close(self) -> None:
        """End all processes, also those that run a scenario."""
        self._is_closed = True
        for worker in [*self._working]:
            worker.kill()
        for process in (self._cold, *self._by_app.values()):
            if process is not None:
                process.close()

    def call(
        self,
        app: App | None,
        function: Callable[..., Any],
        *arguments: Any,
        hear: Callable[[Any], object] | None = None,
    ) -> Any:
        """Return what a function of a module returns in a process that has run nothing.

        ``app`` is the application that it needs; None for none. ``hear`` gets what the process says
        (`ProcessMessages`), and a `LateRefusal` for each effect that its code was refused after the
        call. Raise what the function raises, and WorkerDied if the process ends before, as it does
        after SILENCE_MAX_S without an event.
        """
        key = None if app is None else _key_of(app)
        answer = partial(self._answer, app)
        known = frozenset(sys.modules)
        with _refusals_told(hear) as refusals, self._copy_of(key) as worker:
            self._working.add(worker)
            try:
                if self._is_closed:
                    worker.kill()
                result = worker.call(
                    call_in_own_process,
                    refusals,
                    function,
                    arguments,
                    answering=answer,
                    hear=hear,
                    seconds=self._silence_s,
                )
                if app is not None and app.imports_itself and key not in self._libraries_known:
                    self._libraries_known.add(key)
                    self._import_libraries(key, app, worker, known)
            finally:
                self._working.discard(worker)
        return result

    def simulate(self, app: App, prepared: Prepared) -> tuple[Trace, Judgement]:
        """Run a scenario of an application; raise SimkitError as `simulate`, or if it dies."""
        try:
            result: tuple[Trace, Judgement] = self.call(app, _simulated, prepared)
        except WorkerDied as death:
            raise SimkitError(f"{prepared.item.id}: its process ended {death.how}") from None
        return result

    def _copy_of(self, key: _Key | None) -> Worker:
        """Return a copy of an application process; raise WorkerDied if all are closed."""
        self._begin_next(key)
        for process in (self._by_app.get(key) if key is not None else None, self._cold):
            if process is not None and not self._is_closed:
                try:
                    return start_copy(process)
                except OSError:
                    if key is not None:
                        self._by_app.pop(key, None)
        if self._is_closed:
            raise WorkerDied(None)
        return start_worker(MODULES)

    def _begin_next(self, key: _Key | None) -> None:
        """Let the application after this one be imported meanwhile, if this one is new."""
        if key in self._imported or key not in self._by_app:
            return
        self._imported.add(key)
        self._by_app[key].begin()
        rest = [process for other, process in self._by_app.items() if other not in self._imported]
        for process in rest[:1]:
            process.begin()

    def _import_libraries(
        self, key: _Key | None, app: App, worker: Worker, known: frozenset[str]
    ) -> None:
        """Import in the application process the libraries that the first scenario imported."""
        process = self._by_app.get(key) if key is not None else None
        if key is None or process is None:
            return
        from simkit.adapters.importing import imported_libraries

        try:
            process.call(_import_libraries, app, worker.call(imported_libraries, app, known))
        except Exception:  # The next scenarios import them, as the first one did.
            self._by_app.pop(key).close()

    def _answer(
        self, app: App | None, question: tuple[Callable[..., Any], tuple[Any, ...]]
    ) -> object:
        """Call a function in another process, for a scenario that compares itself with a run."""
        function, arguments = question
        try:
            return "returns", self.call(app, function, *arguments)
        except Exception as problem:
            return "raises", problem


@contextmanager
def _refusals_told(hear: Callable[[Any], object] | None) -> Iterator[str]:
    """Give the file that gets a process's refusals; tell them when it has ended."""
    number, path = tempfile.mkstemp(prefix="simkit-")
    os.close(number)
    try:
        yield path
        for text in refusals_in(path):
            if hear is not None:
                hear(LateRefusal(text))
    finally:
        with suppress(OSError):
            os.unlink(path)


def _key_of(app: App) -> _Key:
    return (app.entry, app.options.input == "turns", *app.folders(), *app.options.env.items())


def _prepare(app: App, keeps_keys: bool) -> None:
    from simkit.adapters.importing import import_application

    import_application(app, keeps_keys)
    check_copyable()


def _import_libraries(app: App, names: list[str]) -> None:
    from simkit.adapters.importing import import_libraries

    import_libraries(app, names)
    check_copyable()


def _simulated(prepared: Prepared) -> tuple[Trace, Judgement]:
    from simkit.session.simulate import simulate

    outcome = simulate(prepared)
    return outcome.trace, outcome.judgement

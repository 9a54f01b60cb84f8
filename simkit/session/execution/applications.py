"""A process of its own for each scenario of code: what one leaves behind reaches no other.

It is a copy of a process that has imported the application and run nothing. If a copy would share
something with the next one, or where processes cannot be copied, it imports the application itself.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeAlias

from simkit.capture.http.refusals import refusals_in
from simkit.checks.judge import Judgement
from simkit.core.errors import SimkitError
from simkit.core.redact.prefilter import may_hold_secrets
from simkit.session.execution.own_process import LateRefusal, call_in_own_process
from simkit.session.workers import (
    ApplicationProcess,
    Worker,
    WorkerDied,
    can_fork,
    check_copyable,
    fork_application,
    import_modules,
    is_traced,
    is_watched,
    start_application,
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

NAMES_MAX: Final = 1_000
"""The number of modules that an application process imports at once."""

_Key: TypeAlias = tuple[object, ...] | None
"""The identity of an application; None for none."""


class OwnProcesses:
    """The application processes of a command, which end with `close`.

    Make it before user code runs in this process. If that has another thread, they are copies of
    interpreters.
    """

    def __init__(
        self, apps: Iterable[App], keeps_keys: bool = False, *,
        modules: Sequence[str] | None = None, silence_s: float | None = None,
    ) -> None:  # fmt: skip
        """``keeps_keys`` leaves API keys in the environment, for real traffic.

        With ``modules``, there is a process without an application, too, which imports them once
        for all scenarios. Real traffic may take as long as it likes, unless there is a
        ``silence_s``.
        """
        self._by_app: dict[_Key, ApplicationProcess] = {}
        self._cold: ApplicationProcess | None = None
        """A process that has imported no application."""
        self._imported: set[_Key] = set()
        """Those that are imported by now, or just are."""
        self._libraries: dict[_Key, list[str]] = {}
        """The modules that an application's first scenario needed, until its process has them."""
        self._working: set[Worker] = set()
        self._is_closed = False
        self._keeps_keys, self._silence_s = keeps_keys, silence_s if keeps_keys else SILENCE_MAX_S
        apps_by_key = {_key_of(app): app for app in apps}
        if not (apps_by_key or modules is not None) or not can_fork() or is_traced():
            return
        start = start_application if is_watched() else fork_application
        self._cold = start(partial(import_modules, modules or ()))
        for key, app in apps_by_key.items():
            prepare = check_copyable if app.imports_itself else partial(_prepare, app, keeps_keys)
            self._by_app[key] = start(prepare)

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
        with _refusals_told(hear) as refusals, self._copy_of(key, app, function) as worker:
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
                if app is not None and key not in self._libraries:
                    with suppress(WorkerDied):  # Its result counts.
                        self._libraries.setdefault(key, worker.call(_imported_libraries, app))
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

    def _copy_of(self, key: _Key, app: App | None, function: Callable[..., Any]) -> Worker:
        """Return a copy of an application process; raise WorkerDied if all are closed."""
        self._begin_next(key)
        for process in (self._by_app.get(key), self._cold):
            if process is not None and not self._is_closed:
                try:
                    process.wait()
                    process.call(import_modules, (*MODULES, function.__module__))
                    if process is not self._cold:
                        self._import_libraries(process, key, app)
                    return start_copy(process)
                except OSError:
                    self._by_app.pop(key, None)
        if self._is_closed:
            raise WorkerDied(None)
        return start_worker((*MODULES, function.__module__))

    def _begin_next(self, key: _Key) -> None:
        """Let the application after this one be imported meanwhile, if this one is new."""
        if key in self._imported or key not in self._by_app:
            return
        self._imported.add(key)
        self._by_app[key].begin()
        rest = [process for other, process in self._by_app.items() if other not in self._imported]
        for process in rest[:1]:
            process.begin()

    def _import_libraries(self, process: ApplicationProcess, key: _Key, app: App | None) -> None:
        """Import in an application process the libraries that its first scenario imported."""
        if names := self._libraries.get(key):
            self._libraries[key] = []
            with suppress(Exception):  # Each scenario imports them, as the first one did.
                with start_copy(process) as trial:
                    new = trial.call(_import_libraries, app, names, self._keeps_keys)
                for index in range(0, len(new), NAMES_MAX):
                    part = new[index : index + NAMES_MAX]
                    process.call(_import_libraries, app, part, self._keeps_keys)

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
    may_hold_secrets(b"", bool)  # Its patterns are compiled, which takes longer than a short run.
    check_copyable()


def _imported_libraries(app: App) -> list[str]:
    from simkit.adapters.importing import imported_libraries

    return imported_libraries(app)


def _import_libraries(app: App, names: list[str], keeps_keys: bool) -> list[str]:
    from simkit.adapters.importing import import_libraries

    new = import_libraries(app, names, keeps_keys)
    check_copyable()
    return new


def _simulated(prepared: Prepared) -> tuple[Trace, Judgement]:
    from simkit.session.simulate import simulate

    outcome = simulate(prepared)
    return outcome.trace, outcome.judgement

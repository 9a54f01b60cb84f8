"""The import of an application, once for all scenarios that run in copies of this process."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from simkit.adapters.concurrency.pools import carrying_contexts, hearing_loops
from simkit.adapters.entry import found_as, home_of, reads_itself
from simkit.adapters.environment import surroundings, unused_packages
from simkit.adapters.framework_driver import loaded_adapters
from simkit.adapters.instrumentation import import_ahead
from simkit.adapters.modules import OwnModules, entry_of
from simkit.adapters.programs.terminal import Unmanned, at_terminal
from simkit.capture.http.connections import watcher
from simkit.capture.http.guards import Guard, add_hook
from simkit.capture.http.interception import intercepting
from simkit.capture.http.places import library_asking
from simkit.capture.http.processes import watching_processes
from simkit.capture.http.request_router import Decision, Owner, owned_by, passing_through
from simkit.core.context_values import set_until_reset
from simkit.core.determinism import World
from simkit.core.determinism.installing import is_library
from simkit.core.determinism.worlds import IMPORT_START, Still
from simkit.core.errors import RunHalted, ScriptBroken, Unsupported
from simkit.core.rng import Chance
from simkit.providers.http import HttpRequest, NoResponse
from simkit.spec.scenario.apps import App

_DESCRIPTORS: Final = Path("/proc/self/fd")
_SHARED: Final = ("socket:", "pipe:", "anon_inode:")
"""Files of connections and of event loops, which copies of a process would share."""


def import_application(app: App, keeps_keys: bool = False) -> None:
    """Import an application's module as its first scenario would.

    Raise OSError if a scenario in a copy of this process would see another thing than one in a new
    interpreter: the import fails, has an effect that each scenario must report, or leaves open what
    copies would share. ``keeps_keys`` leaves API keys in the environment.
    """
    before, gate = set(_shared_files()), _RefusingRouter(home_of(app.entry))
    watch = ImportWatch(app)
    try:
        with (
            _as_in_scenario(app, keeps_keys),
            passing_through(gate, app.allow_hosts),
            watch,
            at_terminal(Unmanned(lambda: reads_itself(app.entry))),
        ):
            entry_of(app)
            _import_drivers()
    except (RunHalted, Exception, SystemExit) as problem:
        raise OSError(f"its import fails: {problem}") from None
    if watch.effects or gate.was_asked:
        raise OSError("its import has effects")
    if opened := set(_shared_files()) - before:
        raise OSError(f"its import leaves {', '.join(sorted(opened))} open")


def _import_drivers() -> None:
    """Import what drives the imported application, which each copy needs."""
    importlib.import_module("simkit.adapters.driver")
    with suppress(Unsupported):  # A scenario reports it, if its application needs that adapter.
        for _ in loaded_adapters():
            pass


class ImportWatch(Guard):
    """Notes the processes that an application starts while it is imported.

    It replaces nothing. Each scenario of this process reports them, whichever one imported.
    """

    def __init__(self, app: App) -> None:
        self.effects = _effects_of_imports.setdefault(
            (app.entry, app.folder, *app.options.path), []
        )
        home = home_of(app.entry)
        super().__init__(self._add, home, app.allow_hosts, trusts_libraries=True)

    def _add(self, effect: str, where: str) -> None:
        if effect == "process" and where not in self.effects:
            self.effects.append(where)

    def __enter__(self) -> None:
        add_hook()
        self._before = set_until_reset(watcher, self, None)
        self.uses += 1

    def __exit__(self, *problem: object) -> None:
        self.uses -= 1
        watcher.reset(self._before)


_effects_of_imports: Final[dict[tuple[str, ...], list[str]]] = {}
"""The places where imports have started processes, by the application's entry and folders."""


def imported_libraries(app: App) -> list[str]:
    """Return the modules of libraries that are imported."""
    own = OwnModules(app)
    return [
        name
        for name, module in sys.modules.copy().items()
        if (file := getattr(module, "__file__", None) or "")
        and is_library(file)
        and not own(name, file)
    ]


def import_libraries(app: App, names: Sequence[str], keeps_keys: bool) -> list[str]:
    """Import those libraries that are not; return them. Raise OSError as `import_application`."""
    before, new = set(_shared_files()), [name for name in names if name not in sys.modules]
    with _as_in_scenario(app, keeps_keys):
        for name in new:
            with suppress(Exception):
                importlib.import_module(name)
    if set(_shared_files()) - before:
        raise OSError("a library leaves something open")
    return new


@contextmanager
def _as_in_scenario(app: App, keeps_keys: bool) -> Iterator[None]:
    """Enter what surrounds an application while a scenario imports it."""
    world = World(Still(IMPORT_START), Chance(0), zone=app.options.env.get("TZ", ""))
    # Each scenario calls its setup; in its copy, fresh modules are as new.
    options = app.options.model_copy(update={"setup": None, "fresh": False})
    bare_app = msgspec.structs.replace(app, folder=os.path.realpath(app.folder), options=options)
    with ExitStack() as stack:
        stack.enter_context(world.in_its_zone())
        stack.enter_context(owned_by(Owner()))
        stack.enter_context(world.at_work())
        stack.enter_context(intercepting())
        stack.enter_context(carrying_contexts)
        stack.enter_context(hearing_loops)
        stack.enter_context(watching_processes)
        stack.enter_context(surroundings(bare_app, found_as, keeps_keys))
        yield
        import_ahead(home_of(app.entry))
    unused_packages.add(home_of(app.entry))


class _RefusingRouter:
    """Refuses every request, since no scenario has begun."""

    was_asked = False

    def __init__(self, home: str) -> None:
        self._home = home

    def take(self, request: HttpRequest) -> Decision:
        if library_asking(sys._getframe(1), self._home):  # Libraries ask by themselves, too.
            return NoResponse("connection", "simkit: there is no network")
        self.was_asked = True
        raise RunHalted(ScriptBroken(f"{request.method} {request.url} was sent by the import"))


def _shared_files() -> Iterator[str]:
    """Yield what this process has open and a copy would share, with its number."""
    if not _DESCRIPTORS.exists():
        return
    for entry in _DESCRIPTORS.iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            if target.startswith(_SHARED) or _is_written(entry.name, target):
                yield f"{target} ({entry.name})"


def _is_written(number: str, target: str) -> bool:
    """Return whether a file is open for writing, at a position that copies would share."""
    if not target.startswith("/") or target.startswith("/dev/"):
        return False
    lines = Path(f"/proc/self/fdinfo/{number}").read_text("ascii").splitlines()
    flags = int(next(line.split()[1] for line in lines if line.startswith("flags:")), 8)
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) and not flags & os.O_APPEND

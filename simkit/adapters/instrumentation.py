"""Instrumentation: records what a framework does wherever a pipeline's code uses it.

An adapter's module may have a function ``instrumentation(adapter_context)``. simkit installs what
it returns for every turn, once the framework is imported. If the framework is not used, it records
nothing, and traces do not change.

Drivers that import the application inside their function are usual. If an adapter were switched on
only in the next turn, the result would depend on earlier runs in the same process. So a framework's
adapter is imported when Python first looks for the framework's package, before any of the
framework's modules is half imported: adapters import many of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import lru_cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from threading import local
from types import ModuleType
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from simkit.adapters.framework_driver import (
    AdapterContext,
    ExplainsInput,
    FrameworkDriver,
    Restartable,
    known,
    loaded_adapters,
)
from simkit.adapters.modules import imports_by_text, is_among, reached_by
from simkit.adapters.observation import ContextListeners
from simkit.adapters.recorder.sessions import Run
from simkit.capture.http.installing import Installation, Keeper
from simkit.capture.http.places import is_library
from simkit.core.errors import PipelineError, Unsupported
from simkit.core.stopping import halting_at
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import AgentRule
from simkit.trace.events import PipelineFacts

Imported = Callable[[str], None]
"""Called with the name of a package that is about to be imported."""


class _ImportWatch(msgspec.Struct, frozen=True):
    """Packages of frameworks, and the function that is called when one is about to be imported."""

    packages: Collection[str]
    imported: Imported


_ears: Final = ContextListeners[_ImportWatch]("simkit_late_imports")


def watching_imports(packages: Collection[str], imported: Imported) -> AbstractContextManager[None]:
    """Call ``imported`` when code of this context begins to import one of the packages.

    When it returns, the package may be imported; the importing code gets the same module. A user's
    own package with a framework's name is ignored.
    """
    if _finder.is_finding and sys.meta_path[0] is not _finder:  # Somebody else came before it.
        _finder.end()
        _finder.begin()
    return _ears.activate(_ImportWatch(packages, imported), _finding)


class _Finder:
    """The first of Python's finders while anybody watches."""

    def __init__(self) -> None:
        self._inside = local()
        self.is_finding = False

    def begin(self) -> None:
        """Become the first finder."""
        self.is_finding = True
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Be no finder any more."""
        self.is_finding = False
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a package that was imported meanwhile, or None for other finders."""
        # Imports between frameworks are found once the first one is imported completely.
        if getattr(self._inside, "is_importing", False):
            return None
        watch = _ears.current()
        if watch is None:
            return None
        waiting: list[str] = vars(self._inside).setdefault("waiting", [])
        for earlier in [package for package in waiting if not _is_half_imported(package)]:
            waiting.remove(earlier)
            self._report(earlier, watch.imported)
        if name not in watch.packages or _is_users(name, path):
            return None
        if _is_half_imported(name):
            # The adapter looks into the module that asks. It waits for that module's next import.
            waiting.append(name)
            return None
        self._report(name, watch.imported)
        module = sys.modules.get(name)
        return ModuleSpec(name, _Loaded(module)) if module is not None else None

    def _report(self, name: str, imported: Imported) -> None:
        self._inside.is_importing = True
        try:
            imported(name)
        finally:
            self._inside.is_importing = False


_finder: Final = _Finder()
_finding: Final = Installation(started=_finder.begin, stopped=_finder.end)


class _Loaded(Loader):
    """A loader of a module that was imported during the search."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module as it is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is; Python has given it this spec."""
        module.__spec__ = self._spec


def _is_half_imported(name: str) -> bool:
    """Return whether another module of the name's top-level package is being imported."""
    top = f"{name.partition('.')[0]}."
    return any(
        key.startswith(top) and getattr(getattr(module, "__spec__", None), "_initializing", False)
        for key, module in sys.modules.copy().items()
        if module is not None and key != name
    )


def _is_users(name: str, path: Any) -> bool:
    spec = PathFinder.find_spec(name, path)
    return spec is not None and spec.origin is not None and not is_library(spec.origin)


class Instrumentation(Protocol):
    """Observes what one framework does.

    A subclass must define only ``at_work`` and ``run_now``. It may list what it observes beyond
    runs and handoffs (``state``, ``filters``) as ``observes``. One that executes no tools, and
    attributes calls only if no other does, sets ``only_attributes``.
    """

    def at_work(self) -> AbstractContextManager[None]:
        """Switch it on for this context, and for code that it starts."""

    def run_now(self) -> Run | None:
        """Return the agent run of this code; None if it is none of the framework's."""

    def reply(self, returned: Any) -> Any:
        """Return the reply in a result of the framework that the pipeline returns."""
        return returned

    def failure(self, problem: Exception) -> PipelineError | None:
        """Return the error for an exception of the framework; None for any other."""
        return None

    def close(self) -> None:
        """Remove what it made."""
        return None


@runtime_checkable
class HasNodes(Protocol):
    """A driver or an instrumentation of a framework with nodes."""

    def nodes(self) -> Collection[str]:
        """Return the names of the nodes known so far."""


class Instrumented:
    """A driver, with the instrumentations of all frameworks that the pipeline imports."""

    def __init__(
        self,
        driver: FrameworkDriver,
        adapter_context: AdapterContext,
        home: str,
        rules: Mapping[str, AgentRule],
    ) -> None:
        """``home`` is the pipeline's top-level package, ``rules`` are its agents' rules."""
        self._driver, self._adapter_context = driver, adapter_context
        self._home, self._rules = home, rules
        self._instrumentations: dict[str, Instrumentation] = {}
        self._used: dict[str, None] = {}
        """The instrumentations that have observed this pipeline."""
        self._on = ExitStack()
        """The contexts that are open during a turn."""
        self._keeper = Keeper()
        self._modules = 0
        """The number of imported modules when instrumentations were added last."""
        self.name = driver.name

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Return the driver's facts, with the aspects that instrumentations observe.

        Only instrumentations of frameworks that the pipeline uses count: others may be imported by
        somebody else in this process.
        """
        import_ahead(self._home)
        self._find()
        own_facts = self._driver.facts(facts)
        observes = dict.fromkeys(own_facts.observes)
        for instrumentation in self._reached():
            observes.update(dict.fromkeys(getattr(instrumentation, "observes", ())))
        return msgspec.structs.replace(own_facts, observes=tuple(observes))

    def run_turn(self, turn: UserTurn) -> Any:
        """Run one turn, with all instrumentations on."""
        self._find()
        try:
            with ExitStack() as self._on:
                with self._keeper.keeping():
                    for instrumentation in self._instrumentations.values():
                        self._on.enter_context(instrumentation.at_work())
                    self._on.enter_context(watching_imports(_packages(), self._imports))
                reply = self._driver.run_turn(turn)
                for instrumentation in [*self._instrumentations.values()]:
                    reply = instrumentation.reply(reply)
                return reply
        except PipelineError:
            raise
        except Exception as problem:
            for instrumentation in self._instrumentations.values():
                failure = instrumentation.failure(problem)
                if failure is not None:
                    raise failure from problem
            raise

    def _imports(self, package: str) -> None:
        """Switch on the adapters of a package that the pipeline is about to import.

        So its use of the framework in this very turn is observed, too.
        """
        for name in _packages()[package]:
            with suppress(ImportError):  # An older version, or another package of the same name.
                import_module(name)
        before = {*self._instrumentations}
        with halting_at(self._adapter_context.halt, (Unsupported,)):
            self._find()
        with self._keeper.keeping():
            for name, instrumentation in self._instrumentations.items():
                if name not in before:
                    self._on.enter_context(instrumentation.at_work())

    def _find(self) -> None:
        """Add instrumentations for frameworks that were imported meanwhile."""
        if len(sys.modules) == self._modules:
            return
        self._modules = len(sys.modules)
        for name, module in loaded_adapters():
            if name not in self._instrumentations and hasattr(module, "instrumentation"):
                self._instrumentations[name] = added = module.instrumentation(self._adapter_context)
                if hasattr(added, "set_agent_rules"):
                    added.set_agent_rules(self._rules)
        order = sorted(self._instrumentations.items(), key=lambda item: _only_attributes(item[1]))
        self._instrumentations = dict(order)

    def nodes(self) -> Collection[str] | None:
        """Return the known nodes of the pipeline's frameworks; None if it has no nodes."""
        sources = (self._driver, *self._reached())
        node_maps = [source.nodes() for source in sources if hasattr(source, "nodes")]
        return dict.fromkeys(node for nodes in node_maps for node in nodes) if node_maps else None

    def knows_all_nodes(self) -> bool:
        """Return whether the driver's pipeline consists of nodes.

        Code, in contrast, may add nodes at any time.
        """
        return isinstance(self._driver, HasNodes)

    def agents(self) -> Collection[str]:
        """Return the agents that the driver knows itself."""
        return self._driver.facts(PipelineFacts(name="", agents={})).agents

    def stands_in(self) -> bool:
        """Return whether anything can answer a tool whose function the scenario does not name.

        Code that imports a name built at run time may use any framework.
        """
        self._find()
        is_open = not all(map(_only_attributes, self._reached())) or imports_by_text(self._home)
        return is_open or bool(getattr(self._driver, "stands_in", False))

    def _reached(self) -> Iterator[Instrumentation]:
        """Yield the instrumentations of frameworks that the pipeline's code uses."""
        reached = reached_by(self._home)
        for name, instrumentation in self._instrumentations.items():
            if is_among(reached, _package_of(name)):
                yield instrumentation

    def run_now(self) -> Run | None:
        """Return the driver's run, else an instrumentation's; some of these begin a run here."""
        return self._driver.run_now() or self._call_facts()

    def run_around(self) -> Run | None:
        """Return the current agent run of this code, if one has begun."""
        frameworks = (i for i in self._instrumentations.values() if not _only_attributes(i))
        runs = (instrumentation.run_now() for instrumentation in frameworks)
        return self._driver.run_now() or next((run for run in runs if run is not None), None)

    def ends_runs(self) -> bool:
        """Return whether the driver reports ends, or an instrumentation observes this code."""
        return self._driver.ends_runs() or self._call_facts() is not None

    def _call_facts(self) -> Run | None:
        for name, instrumentation in [*self._instrumentations.items()]:
            run = instrumentation.run_now()
            if run is not None:
                self._used[name] = None
                return run
        return None

    def observed(self) -> Collection[str]:
        """Return the aspects that instrumentations observe in this pipeline."""
        used = (self._instrumentations[name] for name in self._used)
        return dict.fromkeys(
            aspect for source in used for aspect in getattr(source, "observes", ())
        )

    def restart(self) -> None:
        """Build the pipeline again, if the driver can; else raise Unsupported."""
        if not isinstance(self._driver, Restartable):
            raise Unsupported("nothing is known of where it keeps what outlives its process")
        self._driver.restart()

    def input_advice(self, turn: UserTurn, problem: BaseException) -> str:
        """Return how the pipeline is given its input, if a wrong one may have made it fail."""
        driver = self._driver
        return driver.input_advice(turn, problem) if isinstance(driver, ExplainsInput) else ""

    def close(self) -> None:
        """Close the driver and the instrumentations, which are off by then."""
        with ExitStack() as stack:  # Each is closed, even if another one fails.
            stack.callback(self._keeper.close)
            for instrumentation in self._instrumentations.values():
                stack.callback(instrumentation.close)
            self._driver.close()


def _only_attributes(instrumentation: Instrumentation) -> bool:
    """Return whether an instrumentation only attributes calls, if no other does."""
    return bool(getattr(instrumentation, "only_attributes", False))


def import_ahead(home: str) -> None:
    """Import frameworks that the pipeline will use, to observe its first turn too."""
    reached = reached_by(home)
    for name in known():
        is_near = name not in sys.modules and is_among(reached, name.partition(".")[0])
        if is_near and is_among(reached, _package_of(name)):
            with suppress(ImportError):  # Perhaps another package of the same name.
                import_module(name)
            reached = reached_by(home)


@lru_cache(maxsize=1)
def _packages() -> dict[str, list[str]]:
    """Return the names of the installed adapters by the packages of their frameworks."""
    packages: dict[str, list[str]] = {}
    for name in known():
        packages.setdefault(_package_of(name), []).append(name)
    return packages


@lru_cache(maxsize=64)
def _package_of(name: str) -> str:
    """Return the package of a framework, given the module that names its adapter."""
    top, _, rest = name.partition(".")
    try:
        spec = find_spec(top)
    except ValueError:  # A stub has taken the module's place.
        return top
    is_shared = spec is not None and spec.origin is None
    return f"{top}.{rest.partition('.')[0]}" if is_shared and rest else top

"""An adapter that flies as ever and tells nothing: what holds without it, it has not shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, Final

from simkit.adapters.instruments import Instrument
from simkit.adapters.pilots import Cockpit, Pilot, standing_in
from simkit.adapters.scribe import Scribe
from simkit.errors import PipelineError
from simkit.events import PipelineFacts
from simkit.ports import UserTurn
from simkit.scenario.apps import App
from simkit.trace import Trace

SPANS: Final = "opentelemetry.trace"
"""The adapter that would say whose a call is where no other does."""


@contextmanager
def silenced(name: str, adapter: ModuleType) -> Iterator[None]:
    """Lets an adapter write where nobody reads; nor do the framework's own spans tell anything."""
    with standing_in(name, _Silent(adapter)), without_spans(name):
        yield


@contextmanager
def without_spans(name: str = "") -> Iterator[None]:
    """Lets nobody look at spans, unless the adapter of a ``name`` is the one that does."""
    if name == SPANS:
        yield
        return
    with standing_in(SPANS, _Nobody()):
        yield


class _Nobody:
    """Stands in for an adapter's module, and knows nothing."""

    def pilot(self, subject: Any, app: App, cockpit: Cockpit) -> None:
        """Flies nothing."""


class _Deaf:
    """A cockpit's double: whatever is told there is in no trace."""

    def __init__(self, real: Cockpit) -> None:
        scribe = real.scribe
        self._real = scribe
        self.scribe = Scribe(Trace(), scribe.clock, scribe.count, scribe.limits)
        self.cockpit = Cockpit(self.scribe, real.caller, _for_real, real.halt)

    def follow(self) -> None:
        """Begins the turn that has begun."""
        if self.scribe.turn != self._real.turn:
            self.scribe.begin_turn(self._real.turn, self._real.session, "", "")


def _for_real(
    tool: str, args: Any, real: Callable[[], Any], asked: Any = None, returns: Any = None
) -> Any:
    return real()


class _Silent:
    """Stands in for an adapter's module."""

    def __init__(self, adapter: ModuleType) -> None:
        self._adapter = adapter
        self._doubles: dict[int, _Deaf] = {}
        """By the scribe that would have been told; pilot and instrument share one."""

    def _double(self, cockpit: Cockpit) -> _Deaf:
        return self._doubles.setdefault(id(cockpit.scribe), _Deaf(cockpit))

    def pilot(self, subject: Any, app: App, cockpit: Cockpit) -> Pilot | None:
        """Returns a silent pilot, if the adapter has one for this."""
        make = getattr(self._adapter, "pilot", None)
        double = self._double(cockpit)
        found = make(subject, app, double.cockpit) if make is not None else None
        return None if found is None else _SilentPilot(found, double)

    def instrument(self, cockpit: Cockpit) -> Instrument:
        """Returns a silent instrument."""
        make = getattr(self._adapter, "instrument", None)
        double = self._double(cockpit)
        return _SilentInstrument(make(double.cockpit) if make is not None else None, double)


class _SilentPilot:
    """Flies, and knows of nobody at work."""

    def __init__(self, pilot: Pilot, double: _Deaf) -> None:
        self._pilot, self._double = pilot, double
        self.name = pilot.name

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Says what the pilot says."""
        return self._pilot.facts(facts)

    def fly(self, turn: UserTurn) -> Any:
        """Flies."""
        self._double.follow()
        return self._pilot.fly(turn)

    def run_now(self) -> None:
        """Knows of none."""

    def ends_runs(self) -> bool:
        """Ends none."""
        return False

    def close(self) -> None:
        """Closes the pilot."""
        self._pilot.close()


class _SilentInstrument:
    """Listens, and says nothing."""

    def __init__(self, instrument: Any, double: _Deaf) -> None:
        self._instrument, self._double = instrument, double

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Switches it on."""
        self._double.follow()
        if self._instrument is None:
            yield
            return
        work: AbstractContextManager[None] = self._instrument.at_work()
        with work:
            yield

    def run_now(self) -> None:
        """Knows of none."""

    def reply(self, returned: Any) -> Any:
        """Returns what the instrument makes of what the pipeline returns."""
        return returned if self._instrument is None else self._instrument.reply(returned)

    def failure(self, problem: Exception) -> PipelineError | None:
        """Names no failure."""
        return None

    def close(self) -> None:
        """Closes the instrument."""
        if self._instrument is not None:
            self._instrument.close()

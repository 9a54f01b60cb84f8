"""A silent adapter runs as usual and reports nothing, to show which rules prove something."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

from simkit.adapters.framework_driver import (
    DRIVER_OPTIONS,
    AdapterContext,
    FrameworkDriver,
    standing_in,
)
from simkit.adapters.instrumentation import Instrumentation
from simkit.adapters.recorder import sessions
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.tool_use import ToolUse
from simkit.core.errors import PipelineError
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App
from simkit.trace.events import PipelineFacts
from simkit.trace.store import Trace

SPANS: Final = "opentelemetry.trace"
"""The adapter that attributes calls that no other attributes."""


@contextmanager
def silenced(
    name: str, adapter: ModuleType, output_tool: tuple[str, str] | None = None
) -> Iterator[None]:
    """Let an adapter write where nobody reads; nor do the framework's own spans tell anything.

    A call of the ``output_tool`` still ends a run, as a text does.
    """
    tools = patch.object(sessions, "NO_TOOLS", dict([output_tool] if output_tool else []))
    with standing_in(name, _Silent(adapter)), without_spans(name), tools:
        yield


@contextmanager
def without_spans(name: str = "") -> Iterator[None]:
    """Turn the spans' adapter off, unless it is the adapter ``name``."""
    if name == SPANS:
        yield
        return
    with standing_in(SPANS, _Nobody()):
        yield


class _Nobody:
    """An adapter module without driver and instrumentation."""

    def driver(self, subject: Any, app: App, adapter_context: AdapterContext) -> None:
        """Return None."""


class _Deaf:
    """A double of an adapter context: its reports are in no trace."""

    def __init__(self, real: AdapterContext) -> None:
        recorder = real.recorder
        self._real = recorder
        self.recorder = TraceRecorder(Trace(), recorder.clock, recorder.count, recorder.limits)
        self.adapter_context = AdapterContext(self.recorder, real.caller, ForReal(), real.halt)

    def follow(self) -> None:
        """Begin the current turn in the double."""
        if self.recorder.turn != self._real.turn:
            self.recorder.begin_turn(self._real.turn, self._real.session, "", "")


class ForReal(ToolUse):
    """Executes each tool's call, and reports none."""

    def __init__(self) -> None:
        """Do without a run."""

    def __call__(
        self,
        tool: str,
        args: Any,
        real: Callable[[], Any],
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """Return the result, or an awaitable of it."""
        return real()

    async def in_loop(
        self,
        tool: str,
        args: Any,
        real: Callable[[], Any],
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """Return the result."""
        result = real()
        return await result if inspect.isawaitable(result) else result


class _Silent:
    """The silent replacement of an adapter's module."""

    def __init__(self, adapter: ModuleType) -> None:
        self._adapter = adapter
        self._doubles: dict[int, _Deaf] = {}
        """Doubles by recorder; driver and instrumentation share one."""

    def _double(self, adapter_context: AdapterContext) -> _Deaf:
        return self._doubles.setdefault(id(adapter_context.recorder), _Deaf(adapter_context))

    def driver(
        self, subject: Any, app: App, adapter_context: AdapterContext
    ) -> FrameworkDriver | None:
        """Return a silent driver, if the adapter has one for this subject."""
        make = getattr(self._adapter, "driver", None)
        double = self._double(adapter_context)
        make_driver = make(subject, app, double.adapter_context) if make is not None else None
        return None if make_driver is None else _SilentPilot(make_driver, double)

    def instrumentation(self, adapter_context: AdapterContext) -> Instrumentation:
        """Return a silent instrumentation."""
        make = getattr(self._adapter, "instrumentation", None)
        double = self._double(adapter_context)
        return _SilentInstrument(make(double.adapter_context) if make is not None else None, double)


class _SilentPilot:
    """A driver that runs and reports no agent."""

    def __init__(self, driver: FrameworkDriver, double: _Deaf) -> None:
        self._driver, self._double = driver, double
        self.name = driver.name
        self.app_options = getattr(driver, "app_options", DRIVER_OPTIONS)

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Return the driver's facts."""
        return self._driver.facts(facts)

    def run_turn(self, turn: UserTurn) -> Any:
        """Run one turn."""
        self._double.follow()
        return self._driver.run_turn(turn)

    def run_now(self) -> None:
        """Return None."""

    def ends_runs(self) -> bool:
        """Return false."""
        return False

    def close(self) -> None:
        """Close the driver."""
        self._driver.close()


class _SilentInstrument:
    """An instrumentation that observes and reports nothing."""

    def __init__(self, instrumentation: Any, double: _Deaf) -> None:
        self._instrumentation, self._double = instrumentation, double

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Switch it on."""
        self._double.follow()
        if self._instrumentation is None:
            yield
            return
        work: AbstractContextManager[None] = self._instrumentation.at_work()
        with work:
            yield

    def run_now(self) -> None:
        """Return None."""

    def reply(self, returned: Any) -> Any:
        """Return the instrumentation's reading of the pipeline's result."""
        return returned if self._instrumentation is None else self._instrumentation.reply(returned)

    def failure(self, problem: Exception) -> PipelineError | None:
        """Return None."""
        return None

    def close(self) -> None:
        """Close the instrumentation."""
        if self._instrumentation is not None:
            self._instrumentation.close()

"""What sees a framework at work wherever a pipeline's code uses it, whoever flies the pipeline.

An adapter's module may have a function ``instrument(cockpit)``. What it returns is switched on for
every turn once the framework is imported; where the framework is not used, it shows nothing, so it
makes no difference to a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from simkit.adapters.activations import Run
from simkit.adapters.pilots import Cockpit, Pilot, Restartable, loaded_adapters
from simkit.errors import PipelineError, Unsupported
from simkit.events import PipelineFacts
from simkit.ports import UserTurn


class Instrument(Protocol):
    """Sees what one framework does."""

    def at_work(self) -> AbstractContextManager[None]:
        """Switches it on for this context, and what that starts."""

    def run_now(self) -> Run | None:
        """Returns the activation to which this code belongs; None for none of its framework."""

    def reply(self, returned: Any) -> Any:
        """Returns what the pipeline says, where it returns a result of the framework's."""

    def failure(self, problem: Exception) -> PipelineError | None:
        """Returns what the framework failed with, where the exception is its own."""

    def close(self) -> None:
        """Takes away what it made."""


class Instrumented:
    """A pilot with the instruments of every framework that the pipeline imports."""

    def __init__(self, pilot: Pilot, cockpit: Cockpit) -> None:
        self._pilot, self._cockpit = pilot, cockpit
        self._instruments: dict[str, Instrument] = {}
        self.name = pilot.name

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Says what the pilot says."""
        return self._pilot.facts(facts)

    def fly(self, turn: UserTurn) -> Any:
        """Runs one turn, with all instruments on."""
        self._find()
        try:
            with ExitStack() as stack:
                for one in self._instruments.values():
                    stack.enter_context(one.at_work())
                reply = self._pilot.fly(turn)
                for one in self._instruments.values():
                    reply = one.reply(reply)
                return reply
        except PipelineError:
            raise
        except Exception as problem:
            for one in self._instruments.values():
                failure = one.failure(problem)
                if failure is not None:
                    raise failure from problem
            raise

    def _find(self) -> None:
        """Takes aboard what the pipeline has imported by now."""
        for name, module in loaded_adapters():
            make: Callable[[Cockpit], Instrument] | None = getattr(module, "instrument", None)
            if make is not None and name not in self._instruments:
                self._instruments[name] = make(self._cockpit)

    def stands_in(self) -> bool:
        """Whether anything aboard can answer a tool whose function the scenario does not name."""
        self._find()
        return bool(self._instruments) or bool(getattr(self._pilot, "stands_in", False))

    def run_now(self) -> Run | None:
        """Asks the pilot, then each instrument."""
        return self._pilot.run_now() or self._seen()

    def ends_runs(self) -> bool:
        """Whether the pilot does, or an instrument sees this code at work."""
        return self._pilot.ends_runs() or self._seen() is not None

    def _seen(self) -> Run | None:
        runs = (one.run_now() for one in self._instruments.values())
        return next((run for run in runs if run is not None), None)

    def restart(self) -> None:
        """Builds the pipeline anew, if the pilot can; raises Unsupported where it cannot."""
        if not isinstance(self._pilot, Restartable):
            raise Unsupported("nothing is known of where it keeps what outlives its process")
        self._pilot.restart()

    def close(self) -> None:
        """Closes the pilot and the instruments, which are off by then."""
        self._pilot.close()
        for one in self._instruments.values():
            one.close()

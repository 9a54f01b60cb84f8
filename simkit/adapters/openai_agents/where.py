"""Which scenario, and which call of ``Runner.run``, a piece of code belongs to."""

from __future__ import annotations

from typing import Final

from simkit.adapters.context_listeners import ContextListeners
from simkit.adapters.context_scope import ContextScope
from simkit.adapters.openai_agents.agent_runs import AgentRun, AgentRunLog
from simkit.capture.http.installing import Installation

_current_run: Final = ContextScope[AgentRun]("simkit_agent_run")
flight_now, inside = _current_run.now, _current_run.inside
_ears: Final = ContextListeners[AgentRunLog]("simkit_flight_log")
current_log, told_to = _ears.current, _ears.activate

installation: Final = Installation()
"""What is replaced in the SDK for as long as a turn of some scenario lasts."""

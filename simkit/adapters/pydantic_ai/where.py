"""Which scenario, and which run of an agent or step of a graph, a piece of code belongs to."""

from __future__ import annotations

from typing import Final

from simkit.adapters.context_listeners import ContextListeners
from simkit.adapters.context_scope import ContextScope
from simkit.adapters.pydantic_ai.agent_runs import AgentRun, AgentRunLog, Leaving
from simkit.capture.http.installing import Installation

_agent_run: Final = ContextScope[AgentRun]("simkit_pydantic_ai_agent_run")
inside = _agent_run.inside
_output: Final = ContextScope[Leaving]("simkit_pydantic_ai_output")
leaving_now, leaving = _output.now, _output.inside
"""What is handed to an output function: the first agent that is run inside takes over from it."""
_ears: Final = ContextListeners[AgentRunLog]("simkit_pydantic_ai_log")
current_log, told_to = _ears.current, _ears.activate

installation: Final = Installation()
"""What is replaced in the framework for as long as a turn of some scenario lasts."""


def flight_now() -> AgentRun | None:
    """Returns the agent_run inside which this code runs.

    One that was left open, by a stream that nobody closed, may be over by then.
    """
    agent_run = _agent_run.now()
    while agent_run is not None and agent_run.is_over:
        agent_run = agent_run.parent
    return agent_run

"""A small run with everything that reports show: routing, tools, a handoff, drops, state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.session.simulate import run
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.trace.views import View, view_of

COACH = """\
version: 1
pipeline: coach
channels:
  messages: {reducer: append, scope: session}
  decision: {scope: turn}
  notes: {reducer: append, scope: session}
defaults:
  context: [instructions, handoff, history: {from: log, filters: [tool_messages, tool_calls]}, \
current_message]
  writes: {messages: ["${run.final_message}"]}
agents:
  router:
    instructions: Choose.
    context: [instructions, current_message]
    writes: {decision: "${run.output}"}
  coach: {instructions: Coach., tools: [log_run], handoffs: [analyst]}
  analyst: {instructions: Analyse.}
tools:
  log_run: {args: {type: object, required: [km]}}
contracts:
  - {from: coach, to: analyst, type: analysis, payload: {type: object, required: [km]}}
flow: {router: {decide: router, to: "${run.output.agent}"}}
---
"""

TWO_TURNS = """\
version: 1
scenario: two turns
pipeline: coach
given: {state: {notes: [knee hurts]}}
turns:
  - user: I ran 8 km
    replies:
      router: {json: {agent: coach}}
      coach:
        - calls: [log_run: {km: 8}]
        - Well done.
    tool_results: {log_run: {returns: {ok: true}, latency_ms: 1500}}
  - user: How was it?
    replies:
      router: {json: {agent: coach}}
      coach:
        - handoff: {to: analyst, payload: {}}
        - handoff: {to: analyst, payload: {km: 8}}
      analyst: Faster than last week.
"""


@pytest.fixture
def view_of_run(tmp_path: Path) -> Callable[..., View]:
    """Runs a scenario's text (the two turns with the coach, if none is given); returns the view."""

    def ran(scenario: str = TWO_TURNS, pipeline: str = COACH) -> View:
        file = tmp_path / "a.scenario.yaml"
        file.write_text(pipeline + scenario, encoding="utf-8")
        (item,) = items_in(str(file))
        return view_of(run(Library().prepared(item)).events)

    return ran

"""What a reply line's `when` sees of a context is what judges see of it in the trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.core.messages import Answer
from simkit.runtime.models.script import ScriptedModel
from simkit.runtime.ports import ModelRequest
from simkit.session.simulate import run
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.files import Library, items_in, scenario_files
from simkit.trace.views import view_of
from tests.building import prepared

SCENARIOS = Path(__file__).parents[3] / "scenarios"

RENDERED = """
    agents:
      a:
        instructions: A
        tools: [look]
        context:
          - - instructions
            - history: {title: Said before}
          - history: {name: as_text, as: text}
          - history: {name: brief, window: {rounds: 0, messages: 1}, summary: s}
          - current_message
      s: {instructions: Sum up.}
    flow: {handoffs: {start: a}}
"""
"""Histories in every form: a piece of a message, one text, a summary with what is left."""
TWO_TURNS = """
    turns:
      - user: One
        replies: {a: [{calls: [look: {}]}, First.]}
        tool_results: {look: seen}
      - {user: Two, replies: {a: Second., s: In short.}}
"""


@pytest.mark.slow
def test_the_script_and_the_judges_see_the_same_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs_by_name: dict[str, tuple[list[Any], dict[str, list[Any]]]] = {}
    answer = ScriptedModel.answer

    def noting(model: ScriptedModel, request: ModelRequest) -> Answer:
        sections = {name: list(result) for name, result in request.sections().items() if result}
        pairs_by_name[request.call] = list(request.messages()), sections
        return answer(model, request)

    monkeypatch.setattr(ScriptedModel, "answer", noting)
    library = Library()
    scenarios = [
        library.prepared(item) for file in scenario_files(SCENARIOS) for item in items_in(file)
    ]
    compared = 0
    declared = [item for item in scenarios if isinstance(item.pipeline, Pipeline)]
    for scenario in [*declared, prepared(RENDERED, TWO_TURNS)]:
        pairs_by_name.clear()
        view = view_of(run(scenario).events)
        for call, (messages, sections) in pairs_by_name.items():
            context = view.calls[call].context
            by_name = {name: list(context.section(name)) for name in context.sections}
            compared += 1
            assert (messages, sections) == (list(context.messages), by_name), (
                scenario.item.id,
                call,
            )

    assert compared > 100

"""A graph that stops where it was told to waits for the user."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import run_app


def check_app(name: str, scenario: str) -> None:
    """Runs a scenario that must hold."""
    ran = run_app(f"langgraph_breakpoints:{name}", scenario)
    assert [finding.what for finding in ran.judgement.findings] == []


@pytest.mark.parametrize("name", ["before", "after"])
def test_a_graph_that_stops_is_an_interrupt_and_an_answer_lets_it_go_on(name: str) -> None:
    check_app(
        name,
        f"""
        app: {{path: [.], fresh: true, input: {{text: "${{user}}"}}, output: log}}
        turns:
          - user: Pay
            expect: {{agents: [plan], interrupt: {{{name}: [pay]}}, reply: null}}
          - resume: Yes
            expect: {{agents: [pay], reply: [plan, pay]}}
        """,
    )

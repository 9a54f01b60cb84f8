"""simkit is no handler that users see, and no policy for tracers hides anything from it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from tests.adapters.running import run_app
from tests.apps import langgraph_callbacks as apps
from tests.building import Ran

SCENARIO = """
app: {path: [.], input: {text: "${user}"}, output: text}
turns: [{user: Hello}]
"""


def ran(name: str) -> Ran:
    return run_app(f"langgraph_callbacks:{name}", SCENARIO)


def test_nodes_see_no_handler_of_simkit() -> None:
    assert ran("plain").view.turns[0].state["handlers"] == []


def test_handlers_of_users_are_called_as_always() -> None:
    state = ran("observed").view.turns[0].state

    assert state["handlers"] == ["Own"]
    assert state["events"] == ["LangGraph", "first", "second", "model"]


@pytest.mark.parametrize("name", ["plain", "alone"])
def test_a_model_is_seen_whatever_callbacks_it_is_called_with(name: str) -> None:
    calls = ran(name).view.turns[0].calls

    assert [(call.agent, [m.content for m in call.context.messages]) for call in calls] == [
        ("second", ["Well?"])
    ]


@pytest.mark.skipif(apps.unrecorded is None, reason="this version has no policies for tracers")
def test_a_node_of_which_tracers_are_shown_nothing_is_seen_as_any_other() -> None:
    unrecorded, plain = ran("unrecorded"), ran("plain")

    events = [[type(event) for event in run.trace.events] for run in (unrecorded, plain)]
    assert events[0] == events[1]
    assert unrecorded.view.turns[0].handoffs == plain.view.turns[0].handoffs != ()

"""Scaffolded replies: the least that a request asks for, with which most applications run."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import Offer, ParsedRequest
from simkit.session.execution.first_run import (
    MANNERS,
    Manner,
    ScaffoldedReplies,
    Used,
    _ProbeAnswerer,
)

PLAN: Any = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "string"}}},
    "required": ["steps"],
}
TREE: Any = {
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
            "required": ["children"],
        }
    },
    "$ref": "#/$defs/Node",
}
TOOLS = (Offer("look", {"type": "object"}), Offer("finish", {"type": "object"}))


def reply_to(
    request: ParsedRequest, manner: Manner = MANNERS[0], texts: Sequence[str] = ()
) -> tuple[Message, ScaffoldedReplies]:
    """Returns what is answered."""
    protocol = PROTOCOLS["openai-chat"]
    call: Any = SimpleNamespace(
        id="c", protocol=protocol, model_request=request, run=SimpleNamespace(output_tools=())
    )
    recorder: Any = SimpleNamespace(
        handoff_tools=SimpleNamespace(target_of=lambda name: ""),
        new_call_id=lambda: "call1",
        served_id=lambda own, prefix: own,
    )
    replies = ScaffoldedReplies(manner, texts)
    return replies._message(call, recorder), replies


def request(system: str = "", **options: Any) -> ParsedRequest:
    """Returns a request."""
    messages = (Message("system", system), Message("user", "Hi"))
    return ParsedRequest("openai-chat", "m", messages, **options)


def test_a_model_may_say_a_word_of_its_instructions_by_which_code_routes() -> None:
    routes = request("Answer billing, repair or other.")
    message, replies = reply_to(routes)

    assert message.content == "Reply 1."
    (manner,) = [manner for manner in MANNERS if replies.differs_in(manner)]
    assert reply_to(routes, manner)[0].content == "billing"
    assert not reply_to(request("Be kind."))[1].differs_in(manner)


def test_what_somebody_says_for_the_models_is_said_first() -> None:
    replies = ScaffoldedReplies(MANNERS[0], ["price: Rome"])

    assert [replies._text(request()), replies._text(request())] == ["price: Rome", "Reply 1."]


PLANNED = '{"steps":["add"]}'


@pytest.mark.parametrize(
    ("options", "is_called"),
    [
        ({"output": {"type": "object"}}, False),
        ({"output": PLAN}, False),
        ({"offers": (Offer("plan", PLAN),), "choice": "plan"}, True),
        ({"offers": (Offer("plan", PLAN),), "choice": "required"}, True),
    ],
    ids=["any JSON", "JSON of a schema", "a call that must be", "some call that must be"],
)
def test_json_that_somebody_says_is_given_where_it_fits(
    options: dict[str, Any], is_called: bool
) -> None:
    message, replies = reply_to(request(**options), texts=["Well.", "[1]", PLANNED])

    assert (message.calls[0].args if is_called else message.data) == json.loads(PLANNED)
    assert replies.texts == ["Well.", "[1]"]


def test_a_list_has_an_item_so_that_what_works_it_off_runs() -> None:
    full, replies = reply_to(request(output=PLAN))

    assert json.loads(full.content) == {"steps": ["steps"]}
    others = [manner for manner in MANNERS if replies.differs_in(manner)]
    assert others
    assert {reply_to(request(output=PLAN), manner)[0].content for manner in others} == {
        '{"steps":[]}'
    }


def test_a_supervisor_names_another_agent_each_time_so_that_its_loop_ends() -> None:
    step = {"type": "object", "properties": {"next": {"enum": ["a", "end"]}}, "required": ["next"]}
    _, replies = reply_to(request())

    assert [replies._example(step)["next"] for _ in range(3)] == ["a", "end", "a"]


def test_a_schema_that_speaks_of_itself_has_an_end() -> None:
    assert json.loads(reply_to(request(output=TREE))[0].content) == {"children": []}


@pytest.mark.parametrize(("is_first", "tool"), [(True, "look"), (False, "finish")])
def test_where_some_tool_must_be_called_another_one_may_be_tried(is_first: bool, tool: str) -> None:
    manner = Manner(is_first=is_first)

    message, replies = reply_to(request(offers=TOOLS, choice="required"), manner)

    assert [call.name for call in message.calls] == [tool]
    assert replies.differs_in(Manner(is_first=not is_first))


def test_an_object_of_the_application_does_not_leave_its_process() -> None:
    witness = _ProbeAnswerer(None)
    witness.functions["hand_over"] = "app:hand_over"
    question: Any = SimpleNamespace(call=SimpleNamespace(name="hand_over"))
    desk = lambda: "an agent that no other process can import"  # noqa: E731

    assert witness.carried_out(question, None, lambda: desk) is desk  # type: ignore[arg-type]

    assert pickle.loads(pickle.dumps(witness.used)) == [Used(0, "hand_over")]
    assert witness.functions == {}

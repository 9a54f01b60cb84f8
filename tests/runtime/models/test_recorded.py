"""What a model's recorded reply is taken for, and what of a context is sent to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from simkit.core.messages import Answer, Handoff, JsonValue, Message, ToolCall, Usage
from simkit.providers.http import HttpAnswer
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest
from simkit.runtime.models.recorded import Outgoing, RecordedModel
from simkit.runtime.models.script import ScriptedModel
from simkit.runtime.ports import ModelRequest
from simkit.runtime.speakers import Speaker

QUERY = {"type": "object", "properties": {"query": {"type": "string"}}}
TYPED = {"type": "object", "properties": {"query": {}, "type": {"enum": ["refund", "question"]}}}


class Provider:
    """Answers with one message, and keeps what it was asked."""

    def __init__(self, reply: Message) -> None:
        self.reply = reply
        self.requests: list[ParsedRequest] = []

    def answer(self, call: Outgoing) -> HttpAnswer:
        protocol = PROTOCOLS["openai-chat"]
        parsed_request = protocol.parse_request(call.request)
        self.requests.append(parsed_request)
        return protocol.served(OutgoingReply("1", self.reply, Usage(1, 1)), parsed_request)


def ask_model(
    provider: Provider, messages: Sequence[Message] = (), schema: JsonValue = QUERY
) -> Answer:
    """Asks a model that may call `find.order` and pass control to `billing desk`."""
    speaker = Speaker(
        ParsedRequest("openai-chat", "m", ()),
        {"find.order": Offer("find_order", {"type": "object"})},
        {"billing desk": Offer("transfer_to_billing_desk", schema)},
    )
    script = ScriptedModel([{}], {}, {}, lambda name: lambda: None)
    model = RecordedModel(script, lambda place, agent: False, {"triage": speaker}, provider)
    model.begin_turn(0)
    return model.answer(
        ModelRequest(
            "triage", 1, "r1", "c1", ("find.order",), None, lambda: messages, dict, str,
            handoffs=("billing desk",),
        )
    )  # fmt: skip


def passes(args: Any) -> Provider:
    """Returns a provider whose model passes control with these arguments."""
    call = ToolCall("call_1", "transfer_to_billing_desk", args)
    return Provider(Message("assistant", "One moment.", calls=(call,)))


@pytest.mark.parametrize(
    ("args", "handoff"),
    [
        ({}, Handoff("billing desk", None, None, None, "One moment.")),
        ({"query": "Refund"}, Handoff("billing desk", None, "Refund", None, "One moment.")),
        ({"type": "refund", "payload": {"order": 1}},
         Handoff("billing desk", "refund", None, {"order": 1}, "One moment.")),
        # What says other things says the payload.
        ({"order": 1, "query": "x"},
         Handoff("billing desk", None, None, {"order": 1, "query": "x"}, "One moment.")),
    ],
)  # fmt: skip
def test_a_call_that_passes_control_is_a_handoff(args: Any, handoff: Handoff) -> None:
    assert ask_model(passes(args)).reply == handoff


def test_a_handoff_that_does_not_say_its_type_has_none_that_is_registered() -> None:
    reply = ask_model(passes({"query": "Refund"}), schema=TYPED).reply

    assert isinstance(reply, Handoff)
    assert reply.type == ""


def test_tools_have_their_own_names_again_when_they_are_called() -> None:
    call = ToolCall("call_1", "find_order", {"id": 1})

    reply: Any = ask_model(Provider(Message("assistant", calls=(call,)))).reply

    assert [(item.tool, item.args) for item in reply.calls] == [("find.order", {"id": 1})]


def test_a_provider_is_told_roles_words_and_calls_and_nothing_else() -> None:
    provider = Provider(Message("assistant", "Yes."))
    context = [
        Message("user", "Hello", "m1", None, 1, section="history"),
        Message(
            "assistant", "", "m2", "clerk", 1, (ToolCall("call1", "find.order", {"id": 1}),),
            section="history",
        ),
        Message("tool", "{}", "m3", "clerk", 1, (), "call1", "find.order", {}, "history"),
    ]  # fmt: skip

    answer = ask_model(provider, context)

    assert answer.usage == Usage(1, 1)
    assert [(m.role, m.content, m.agent) for m in provider.requests[0].messages] == [
        ("user", "Hello", None), ("assistant", "", None), ("tool", "{}", None),
    ]  # fmt: skip
    assert provider.requests[0].messages[1].calls == (ToolCall("call1", "find_order", {"id": 1}),)
    assert [offer.name for offer in provider.requests[0].offers] == [
        "find_order", "transfer_to_billing_desk",
    ]  # fmt: skip

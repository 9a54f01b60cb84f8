"""Providers on this machine's own network, in every protocol, and a declared desk that asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from simkit.capture.http.request_router import Decision
from simkit.core.messages import Fails, Message, ToolCall, Usage
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply, ParsedRequest
from tests.recording import Provider

KEY = "sk-test-0123456789abcdef"
MODELS = {
    "openai-chat": "openai/gpt-5-mini",
    "openai-responses": "openai-responses/gpt-5-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
}
PIPELINE = """\
version: 1
pipeline: desk
models: {default: MODEL}
schemas:
  Case: {type: object, required: [order], properties: {order: {type: string}}}
agents:
  triage: {instructions: You are the triage., handoffs: [billing]}
  billing: {instructions: You are the billing., tools: [find_order]}
tools:
  find_order:
    description: Looks an order up
    args: {type: object, required: [id], properties: {id: {type: string}}}
contracts:
  - {from: triage, to: billing, type: refund, payload: {$ref: Case}}
flow: {handoffs: {start: triage}}
"""
SCENARIO = """\
version: 1
scenario: a broken order is refunded
pipeline: desk.pipeline.yaml
cassette: desk
turns:
  - user: My order A-1 came broken
    tool_results: {find_order: {id: A-1, state: delivered}}
    expect:
      handoffs: [{from: triage, to: billing, type: refund, payload: {order: A-1}}]
      tool_calls: [{tool: find_order, args: {id: A-1}}]
      reply: You get a refund.
"""


def calls(tool: str, args: object, text: str = "") -> Message:
    """Returns a reply that calls a tool."""
    return Message("assistant", text, calls=(ToolCall("", tool, args),))


def says(text: str) -> Message:
    """Returns a reply that is a text."""
    return Message("assistant", text)


HANDS_OVER = calls("transfer_to_billing", {"payload": {"order": "A-1"}})
LOOKS_UP = calls("find_order", {"id": "A-1"})
REFUNDS = says("You get a refund.")
DESK: Mapping[str, tuple[Message | Fails, ...]] = {
    "triage": (HANDS_OVER,),
    "billing": (LOOKS_UP, REFUNDS),
}


def agent_of(parsed_request: ParsedRequest) -> str:
    """Returns who asks, as its instructions say: ``You are the triage.``"""
    first = parsed_request.messages[0].content.split("\n")[0]
    return first.removeprefix("You are the ").split(".")[0]


class Desk:
    """Answers in the protocol in which it is asked, each agent's replies in order."""

    def __init__(self, replies: Mapping[str, tuple[Message | Fails, ...]]) -> None:
        self._left = {agent: list(result) for agent, result in replies.items()}
        self.requests: list[ParsedRequest] = []
        self._calls = 0

    def __call__(self, request: HttpRequest) -> Decision:
        """Answers one request; a failure stays the answer, however often a client tries."""
        protocol = protocol_of(request)
        assert protocol is not None
        parsed_request = protocol.parse_request(request)
        self.requests.append(parsed_request)
        left = self._left[agent_of(parsed_request)]
        if isinstance(left[0], Fails):
            return protocol.failed(f"f{len(self.requests)}", left[0], parsed_request)
        reply = left.pop(0)
        assert isinstance(reply, Message)
        results = []
        for call in reply.calls:
            self._calls += 1
            results.append(ToolCall(f"{protocol.call_prefix}{self._calls}", call.name, call.args))
        message = Message("assistant", reply.content, calls=tuple(results), data=reply.data)
        return protocol.served(
            OutgoingReply(f"s{len(self.requests)}", message, Usage(11, 7)), parsed_request
        )


def point_clients(server: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points every provider's own client to a server."""
    for name, value in {
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "GEMINI_API_KEY": KEY,
    }.items():
        monkeypatch.setenv(name, value)


def write_desk(
    folder: Path, protocol: str = "openai-chat", *, pipeline: str = PIPELINE,
    scenario: str = SCENARIO, stream: bool = False,
) -> Path:  # fmt: skip
    """Writes the declared desk and its scenario; returns the scenario's file."""
    model = MODELS[protocol]
    if stream:
        model = f"{{model: {model}, stream: true}}"
    text = pipeline.replace("MODEL", model)
    (folder / "desk.pipeline.yaml").write_text(text, encoding="utf-8")
    file = folder / "desk.scenario.yaml"
    file.write_text(scenario, encoding="utf-8")
    return file

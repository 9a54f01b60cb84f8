"""Amazon Bedrock, Ollama and Cohere through their own clients, and frameworks on these.

`nox -s vendor_clients` runs this file: the clients have an environment of their own.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

pytest.importorskip(
    "boto3", reason="boto3, ollama and cohere are not installed: `nox -s vendor_clients` has them"
)

from simkit import simulate
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import protocol_of
from simkit.providers.values import OutgoingReply
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record
from tests.adapters.running import run_app
from tests.recording import prepared, provider, write

BOOKED = "Booked in Bern, and I hope that you will like it there very much. Grüezi!"
DESK = "agents: {desk: {messages: {$has: [{role: user}]}}}\n"
LOOPS = [
    "converse", "converse_stream", "ollama", "ollama_stream", "cohere", "cohere_stream",
    "langchain_aws", "langchain_aws_stream", "langchain_ollama", "langchain_ollama_stream",
    "langchain_cohere", "pydantic_bedrock", "pydantic_cohere",
]  # fmt: skip
TALK = f"""
turns:
  - user: A room in Bern
    replies:
      desk:
        - {{text: One moment., calls: [{{book: {{city: Bern}}}}]}}
        - {BOOKED}
    expect:
      context:
        "desk[0]":
          messages: [system: You are the desk., user: A room in Bern]
          tools: [book]
        "desk[1]":
          messages: {{$has: [{{role: tool, tool: book, content: {{$contains: Bern}}}}]}}
      tool_calls: [{{tool: book, args: {{city: Bern}}}}]
      reply: {BOOKED}
"""


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key or region of this machine's own."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "CO_", "OLLAMA_"))]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize("function", LOOPS)
def test_a_tool_is_called_and_its_result_comes_back(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: addresses.append(address))

    ran = run_app(f"vendor_clients:{function}", DESK + TALK)

    assert [finding.what for finding in ran.judgement.findings] == []
    assert [warning.what for warning in ran.judgement.warnings] == []
    assert addresses == []  # Neither the provider nor the machine's own metadata.


@pytest.mark.parametrize("function", ["generate", "invoke", "invoke_stream"])
def test_a_text_is_answered(function: str) -> None:
    messages = "{messages: [system: You are the desk., user: Hello]}"
    turns = "turns: [{user: Hello, replies: {desk: [Grüezi.]}, expect: {reply: Grüezi.}}]"
    turns = turns.replace("expect: {", f"expect: {{context: {{desk: {messages}}}, ")

    assert run_app(f"vendor_clients:{function}", DESK + turns).judgement.findings == ()


FAILURES = {
    "converse": {
        "rate_limit": "ThrottlingException", "context_overflow": "ValidationException",
        "invalid_request": "ValidationException", "permission": "AccessDeniedException",
        "not_found": "ResourceNotFoundException", "unavailable": "ServiceUnavailableException",
        "server_error": "InternalServerException", "authentication": "UnrecognizedClientException",
        "connection": "ConnectionClosedError", "timeout": "TimeoutError",
    },
    "ollama": {
        "rate_limit": "ResponseError: too many requests (status code: 429)",
        "context_overflow": "ResponseError: the input length exceeds the context length",
        "not_found": "ResponseError: model 'llama3.2' not found (status code: 404)",
        "overloaded": "ResponseError: server busy", "connection": "ConnectionError",
    },
    "invoke": {
        "rate_limit": "RateLimitError", "context_overflow": "BadRequestError",
        "permission": "PermissionDeniedError", "unavailable": "ServiceUnavailableError",
    },
    "cohere": {
        "rate_limit": "TooManyRequestsError", "context_overflow": "BadRequestError",
        "authentication": "UnauthorizedError: ", "permission": "ForbiddenError",
        "not_found": "NotFoundError", "server_error": "InternalServerError",
        "unavailable": "ServiceUnavailableError", "content_filter": "InvalidTokenError",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "kind"), [(each, kind) for each, kinds in FAILURES.items() for kind in kinds]
)
def test_a_failure_is_the_clients_own_exception(function: str, kind: str) -> None:
    ways = [f"caught_{function}"]
    if function != "invoke" and kind not in ("timeout", "connection"):
        ways.append(f"caught_{function}_stream")
    for way in ways:
        ran = run_app(
            f"vendor_clients:{way}",
            f"{DESK}turns: [{{user: Hello, replies: {{desk: [{{error: {kind}}}]}}}}]",
        )

        assert FAILURES[function][kind] in str(ran.view.turns[0].reply), way


@pytest.mark.parametrize(
    ("function", "problem"),
    [("caught_converse_stream", "EventStreamError"), ("caught_ollama_stream", "ResponseError")],
)
def test_a_stream_that_ends_with_an_error_raises_it(function: str, problem: str) -> None:
    line = "{error: {type: overloaded, status: 200}}"

    ran = run_app(
        f"vendor_clients:{function}", f"{DESK}turns: [{{user: Hello, replies: {{desk: [{line}]}}}}]"
    )

    assert problem in str(ran.view.turns[0].reply)


ADDRESSES = {
    "converse": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "ollama": "OLLAMA_HOST", "cohere": "CO_API_URL",
}  # fmt: skip
SECRET = "sk-" + "proj-" + "Qm8vZ2tXc1RyN0pLd0Y4" * 2
CODE = (Path(__file__).parent.parent / "apps" / "vendor_clients.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("function", [*ADDRESSES, *(f"{each}_stream" for each in ADDRESSES)])
def test_what_is_recorded_is_replayed_without_the_network_and_without_secrets(
    function: str, cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [
        Message("assistant", "One moment.", calls=(ToolCall("c1", "book", {"city": "Bern"}),)),
        Message("assistant", f"{BOOKED} {SECRET}"),
    ]

    def answer(request: HttpRequest) -> HttpResponse:
        protocol = protocol_of(request)
        assert protocol is not None
        parsed = protocol.parse_request(request)
        message = replies[sum(message.role == "assistant" for message in parsed.messages)]
        return protocol.served(OutgoingReply("s1", message, Usage(11, 7)), parsed)

    text = (
        f"version: 1\nscenario: recorded\npipeline: desk:{function}\n"
        f"app: {{path: [.], fresh: true}}\ncassette: desk\n{DESK}"
        "turns:\n  - user: A room in Bern\n    expect:\n"
        "      tool_calls: [{tool: book, args: {city: Bern}}]\n"
        "      reply: {$contains: very much}\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "CO_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-mine-1234567890")
    with provider() as server:
        server.answer = answer
        monkeypatch.setenv(ADDRESSES[function.partition("_")[0]], server.url)
        file = write(cwd, text, CODE)
        recorded = record(prepared(file), Recording("all", "2026-01-05T09:00:00Z")).outcome
        assert [finding.what for finding in recorded.judgement.findings] == []
        assert len(server.requests) == 2
    again = simulate(prepared(file))

    assert [finding.what for finding in again.judgement.findings] == []
    calls = list(again.view.calls.values())
    assert [call.usage.input_tokens for call in calls if call.usage] == [11, 11]
    (cassette,) = (cwd / "cassettes").iterdir()
    stored = cassette.read_text(encoding="utf-8")
    assert SECRET not in stored + str(again.trace.events)
    assert "[redacted:openai]" in str(again.view.turns[0].reply)

"""Messages in a provider's format, and attachments, as the interceptor reads them."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.observation import MessageFormat, attachment_text, parse_messages
from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall

CALL = Message("assistant", calls=(ToolCall("c1", "look_up", {"word": "x"}),))
CHAT_CALL = {
    "role": "assistant",
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "look_up", "arguments": '{"word": "x"}'},
        }
    ],
}


@pytest.mark.parametrize(
    ("messages", "format", "parsed"),
    [
        ([{"role": "user", "content": "hi"}, CHAT_CALL], "openai-chat",
         [Message("user", "hi"), CALL]),
        ([{"role": "user", "content": "hi"},
          {"type": "function_call", "call_id": "c1", "name": "look_up",
           "arguments": '{"word": "x"}'}], "openai-responses", [Message("user", "hi"), CALL]),
        ([{"role": "user", "content": "hi"},
          {"role": "assistant", "content": [
              {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "x"}}]}],
         "anthropic", [Message("user", "hi"), CALL]),
        ([{"role": "user", "parts": [{"text": "hi"}]}], "gemini", [Message("user", "hi")]),
        ([], "openai-chat", []),
    ],
)  # fmt: skip
def test_messages_are_parsed_as_those_of_a_request(
    messages: list[Any], format: MessageFormat, parsed: list[Message]
) -> None:
    assert parse_messages(messages, format) == parsed


@pytest.mark.parametrize("format", ["openai-chat", "openai-responses", "anthropic"])
def test_what_no_request_could_hold_is_refused(format: MessageFormat) -> None:
    with pytest.raises(WireInvalid):
        parse_messages([{"role": "nobody", "content": "hi"}], format)


def test_an_attachment_is_named_by_its_address_or_by_its_bytes() -> None:
    assert attachment_text("image", "https://a.example/b.png") == "[image https://a.example/b.png]"
    assert attachment_text("file", "file-7") == "[file file-7]"
    assert attachment_text("image", data=b"1", media_type="image/png") == (
        "[image sha256:6b86b273ff34]"
    )
    assert attachment_text("file") == "[file]"

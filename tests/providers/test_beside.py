"""What stands beside text and calls, as the providers' own libraries put it together.

Each library must make the same of a whole response and of its stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from simkit.core.errors import WireInvalid, WordUnasked
from simkit.core.messages import (
    Citation,
    Message,
    ResponseExtras,
    Thinking,
    Token,
    ToolCall,
    Usage,
    thinking_of,
)
from simkit.providers.anthropic import messages
from simkit.providers.attachments import merged
from simkit.providers.body_reader import json_bytes
from simkit.providers.gemini import generate
from simkit.providers.http import HttpRequest
from simkit.providers.openai import chat, responses
from simkit.providers.values import OutgoingReply, ParsedRequest, Protocol
from tests.providers.answering import Provider

TEXT: Final = "Grüezi. In Zürich it is 30 degrees, and sunny."
SIGNATURE: Final = "c2lnbmVk"
THOUGHT: Final = Thinking("The guest wants the weather of today.", SIGNATURE)
CALL: Final = ToolCall("toolu_1", "book", {"city": "Zürich"})
PAGES: Final = (
    Citation("https://a.ch", "A", "It is 30 °C.", "30 degrees", "weather"),
    Citation("https://b.ch", "B", "Sunny.", "sunny", "weather"),
    Citation("https://a.ch", "A", "Zürich", "Zürich", "city"),
)
TOKENS: Final = (
    Token("Grüezi", -0.1, (("Hallo", -2.5),)),
    Token(". In ", -0.5),
    Token(TEXT[11:], -0.25, (("so", -1.5), ("ja", -0.125))),
)
LOGPROBS: Final = "message.output_text.logprobs"
USAGE: Final = Usage(100, 30, 60, None, 12)


class Anthropic:
    protocol = messages.PROTOCOL
    logprobs: ClassVar[Any] = {}
    encrypted: ClassVar[Any] = {}

    def __init__(self, reply: OutgoingReply) -> None:
        client = Provider(self.protocol, reply).client()
        self._messages = anthropic.Anthropic(api_key="test", http_client=client).messages

    def both(self, **more: Any) -> tuple[Any, Any]:
        body: Any = {
            "model": "claude-x", "max_tokens": 64,
            "messages": [{"role": "user", "content": "Hello"}], **more,
        }  # fmt: skip
        with self._messages.stream(**body) as stream:
            return plain_value(self._messages.create(**body)), plain_value(
                stream.get_final_message()
            )


class Chat:
    protocol = chat.PROTOCOL
    logprobs: ClassVar[Any] = {"logprobs": True, "top_logprobs": 2}
    encrypted: ClassVar[Any] = {}

    def __init__(self, reply: OutgoingReply) -> None:
        client = Provider(self.protocol, reply).client()
        self._chat = openai.OpenAI(api_key="test", http_client=client).chat.completions

    def both(self, **more: Any) -> tuple[Any, Any]:
        body: Any = {"model": "x", "messages": [{"role": "user", "content": "Hello"}], **more}
        with self._chat.stream(stream_options={"include_usage": True}, **body) as stream:
            value = plain_value(stream.get_final_completion())
        return plain_value(self._chat.create(**body)), value


class Responses:
    protocol = responses.PROTOCOL
    logprobs: ClassVar[Any] = {"include": [LOGPROBS], "top_logprobs": 2}
    encrypted: ClassVar[Any] = {"include": ["reasoning.encrypted_content"]}

    def __init__(self, reply: OutgoingReply) -> None:
        client = Provider(self.protocol, reply).client()
        self._responses = openai.OpenAI(api_key="test", http_client=client).responses

    def both(self, **more: Any) -> tuple[Any, Any]:
        body: Any = {"model": "x", "input": "Hello", **more}
        with self._responses.stream(**body) as stream:
            final = self._pieced_together(stream)
        return plain_value(self._responses.create(**body)), plain_value(final)

    @staticmethod
    def _pieced_together(stream: Any) -> Any:
        """The library takes the final response from the last event; the others must agree."""
        items: dict[int, Any] = {}
        texts, annotations, logprobs = dict[Any, str](), dict[Any, list[Any]](), list[Any]()
        for event in stream:
            if event.type == "response.output_item.done":
                items[event.output_index] = plain_value(event.item)
            elif event.type.endswith(".delta"):
                key = event.output_index, event.type
                texts[key] = texts.get(key, "") + event.delta
                logprobs += [plain_value(entry) for entry in getattr(event, "logprobs", None) or []]
            elif event.type == "response.output_text.annotation.added":
                annotations.setdefault(event.output_index, []).append(plain_value(event.annotation))
        final = stream.get_final_response()
        assert [items[place] for place in sorted(items)] == [
            plain_value(entry) for entry in final.output
        ]
        for place, item in items.items():
            if item["type"] == "message":
                part = item["content"][0]
                assert texts[place, "response.output_text.delta"] == part["text"]
                assert annotations.get(place, []) == part["annotations"]
                assert [entry["token"] for entry in logprobs] == [
                    entry["token"] for entry in part["logprobs"]
                ]
            elif item["type"] == "reasoning" and item["summary"]:
                thought = texts[place, "response.reasoning_summary_text.delta"]
                assert thought == item["summary"][0]["text"]
        return final


class Gemini:
    protocol = generate.PROTOCOL
    logprobs: ClassVar[Any] = {"response_logprobs": True, "logprobs": 2}
    encrypted: ClassVar[Any] = {}

    def __init__(self, reply: OutgoingReply) -> None:
        options = types.HttpOptions(httpx_client=Provider(self.protocol, reply).client())
        self._models = genai.Client(api_key="test", http_options=options).models

    def both(self, **more: Any) -> tuple[Any, Any]:
        ask: Any = {
            "model": "gemini-x", "contents": "Hello",
            "config": types.GenerateContentConfig(**more),
        }  # fmt: skip
        whole = plain_value(self._models.generate_content(**ask))
        return whole, self._joined(
            [plain_value(item) for item in self._models.generate_content_stream(**ask)]
        )

    @staticmethod
    def _joined(responses: list[Any]) -> Any:
        """The library leaves it to its users: parts in a row, all else from the last response."""
        parts: list[Any] = []
        for response in responses:
            for part in response["candidates"][0]["content"].get("parts", []):
                before = parts[-1] if parts else {}
                is_same = "text" in before and before.get("thought") == part.get("thought")
                if is_same and "text" in part and "thought_signature" not in before:
                    part = {**before, **part, "text": parts.pop()["text"] + part["text"]}
                parts.append(part)
        last = responses[-1]
        last["candidates"][0]["content"]["parts"] = parts
        return last


LIBRARIES: Final[dict[str, Any]] = {
    item.protocol.name: item for item in (Anthropic, Chat, Responses, Gemini)
}
everywhere = pytest.mark.parametrize("name", LIBRARIES)
cuts = pytest.mark.parametrize("chunks", [None, 1, (3,)])


def plain_value(value: Any) -> Any:
    """What a library's object says, without what is only said of streams."""
    block = value.model_dump(mode="json", exclude_none=True)
    return _plain(block)


_LIBRARYS_OWN: Final = (
    "parsed", "parsed_arguments", "sdk_http_response", "automatic_function_calling_history",
)  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    by_name = {key: _plain(item) for key, item in value.items() if key not in _LIBRARYS_OWN}
    if "function" in by_name:
        by_name.pop("index", None)
    return {key: item for key, item in by_name.items() if item is not None}


def make_reply(extras: ResponseExtras, chunks: Any = None, **more: Any) -> OutgoingReply:
    message = Message("assistant", **{"content": TEXT, **more})
    return OutgoingReply("c1", message, USAGE, chunks, extras=extras)


def found_in(value: Any, expected: Any) -> bool:
    """Whether a value stands anywhere inside another."""
    if value == expected:
        return True
    inner: Iterable[Any] = value.values() if isinstance(value, dict) else ()
    inner = value if isinstance(value, list) else inner
    return any(found_in(item, expected) for item in inner)


def besides(protocol: Protocol) -> ResponseExtras:
    """Everything that a provider can say beside a text."""
    can_sign = protocol.name != "openai-chat"
    return ResponseExtras(
        THOUGHT if can_sign else Thinking(THOUGHT.text),
        () if protocol.name == "anthropic" else TOKENS,
        PAGES,
        {"x_new": {"a": [1, {"b": 2}]}},
    )


@everywhere
@cuts
def test_a_stream_makes_what_the_whole_response_is(name: str, chunks: Any) -> None:
    library = LIBRARIES[name]
    include = [*library.logprobs.get("include", ()), *library.encrypted.get("include", ())]
    more = {**library.logprobs, **({"include": include} if include else {})}

    whole, streamed = library(make_reply(besides(library.protocol), chunks)).both(**more)

    assert streamed == whole
    assert found_in(whole, THOUGHT.text)
    assert found_in(whole, "https://b.ch")


@everywhere
@cuts
def test_thinking_stands_before_calls(name: str, chunks: Any) -> None:
    library = LIBRARIES[name]
    extras = ResponseExtras(THOUGHT if name != "openai-chat" else Thinking(THOUGHT.text))

    whole, streamed = library(make_reply(extras, chunks, content="", calls=(CALL,))).both(
        **library.encrypted
    )

    assert streamed == whole
    assert found_in(whole, THOUGHT.text)
    assert found_in(whole, SIGNATURE) is (name != "openai-chat")
    assert str(whole).index(str(THOUGHT.text)) < str(whole).index("book") or name == "openai-chat"


@everywhere
def test_tokens_are_counted_as_the_provider_does(name: str) -> None:
    whole, streamed = LIBRARIES[name](make_reply(ResponseExtras())).both()

    key = "usage_metadata" if name == "gemini" else "usage"
    assert streamed[key] == whole[key]
    counted = whole[key]
    match name:
        case "anthropic":
            assert counted["input_tokens"] == 40
            assert counted["cache_read_input_tokens"] == 60
            assert counted["output_tokens_details"] == {"thinking_tokens": 12}
        case "openai-chat":
            assert counted["prompt_tokens_details"]["cached_tokens"] == 60
            assert counted["completion_tokens_details"]["reasoning_tokens"] == 12
        case "openai-responses":
            assert counted["input_tokens_details"]["cached_tokens"] == 60
            assert counted["output_tokens_details"] == {"reasoning_tokens": 12}
        case _:
            assert counted["cached_content_token_count"] == 60
            assert counted["candidates_token_count"] == 18
            assert counted["thoughts_token_count"] == 12
            assert counted["total_token_count"] == 130


@everywhere
@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_is_heard_of_a_reply_is_what_was_said(name: str, is_streamed: bool) -> None:
    protocol = LIBRARIES[name].protocol
    parsed_request = ParsedRequest(name, "x", (), is_streamed=is_streamed)
    if name == "openai-chat" and is_streamed:
        parsed_request = ParsedRequest(
            name, "x", (), is_streamed=True, settings={"stream_options": {"include_usage": True}}
        )
    thinking = THOUGHT if name != "openai-chat" else Thinking(THOUGHT.text)

    served = protocol.served(
        make_reply(ResponseExtras(thinking, (), PAGES), calls=(CALL,)), parsed_request
    )
    parsed = protocol.parse_response(served, parsed_request)

    assert parsed.error is None
    assert parsed.message.content == TEXT
    assert [call.name for call in parsed.message.calls] == ["book"]
    assert thinking_of(parsed.message) == THOUGHT.text
    assert parsed.usage == USAGE


def _sent_back(name: str) -> dict[str, Any]:
    """A request of the next turn, in which an application sends the thinking back."""
    match name:
        case "anthropic":
            blocks = [
                {"type": "thinking", "thinking": THOUGHT.text, "signature": SIGNATURE},
                {"type": "text", "text": TEXT},
            ]
            return {
                "model": "x",
                "max_tokens": 1,
                "messages": [
                    {"role": "assistant", "content": blocks},
                    {"role": "user", "content": "And?"},
                ],
            }
        case "openai-chat":
            return {
                "model": "x",
                "messages": [
                    {"role": "assistant", "content": TEXT, "reasoning_content": THOUGHT.text},
                    {"role": "user", "content": "And?"},
                ],
            }
        case "openai-responses":
            thought = {"type": "summary_text", "text": THOUGHT.text}
            return {
                "model": "x",
                "input": [
                    {"type": "reasoning", "id": "rs_1", "summary": [thought]},
                    {"type": "message", "role": "assistant", "content": TEXT},
                    {"role": "user", "content": "And?"},
                ],
            }
    return {"contents": [
        {"role": "model", "parts": [{"text": THOUGHT.text, "thought": True}, {"text": TEXT}]},
        {"role": "user", "parts": [{"text": "And?"}]}]}  # fmt: skip


@everywhere
def test_thinking_that_is_sent_back_is_thinking_and_no_text(name: str) -> None:
    url = {
        "anthropic": "https://a.test/v1/messages",
        "openai-chat": "https://a.test/v1/chat/completions",
        "openai-responses": "https://a.test/v1/responses",
        "gemini": "https://a.test/v1beta/models/x:generateContent",
    }[name]

    parsed_request = LIBRARIES[name].protocol.parse_request(
        HttpRequest("POST", url, (), json_bytes(_sent_back(name)))
    )

    assert [(m.role, m.content) for m in parsed_request.messages] == [
        ("assistant", TEXT),
        ("user", "And?"),
    ]
    assert thinking_of(parsed_request.messages[0]) == THOUGHT.text
    assert thinking_of(parsed_request.messages[1]) is None


@pytest.mark.parametrize(
    ("name", "extras", "usage", "message"),
    [
        ("anthropic", ResponseExtras(logprobs=TOKENS), USAGE,
         "logprobs: Anthropic's messages have no probabilities"),
        ("openai-chat", ResponseExtras(Thinking(None, SIGNATURE)), USAGE,
         "thinking: chat completions carry thinking as a text, without a signature; servers that "
         "do more have fields of their own, for `raw`"),
        ("gemini", ResponseExtras(Thinking("So.", "no base64!")), USAGE,
         "thinking.signature: Gemini's signatures are base64, and this is none"),
        ("gemini", ResponseExtras(), Usage(9, 9, None, 3),
         "usage: Gemini does not count what it writes to a cache"),
        ("openai-chat", ResponseExtras(raw={"choices": {}}), USAGE,
         "raw.choices: is a list in the response, so nothing else can be merged"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_a_provider_does_not_say_is_refused(
    name: str, extras: ResponseExtras, usage: Usage, message: str, is_streamed: bool
) -> None:
    reply = OutgoingReply("c1", Message("assistant", TEXT), usage, extras=extras)

    with pytest.raises(WireInvalid) as caught:
        LIBRARIES[name].protocol.served(
            reply, ParsedRequest(name, "x", (), is_streamed=is_streamed)
        )

    assert str(caught.value) == message


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "gemini"])
def test_probabilities_that_are_not_asked_for_are_refused(name: str) -> None:
    with pytest.raises(WordUnasked, match=r"^logprobs: the request does not ask for them, with `"):
        LIBRARIES[name].protocol.served(
            make_reply(ResponseExtras(logprobs=TOKENS)), ParsedRequest(name, "x", ())
        )


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "gemini"])
def test_the_most_probable_stand_first_and_are_as_many_as_asked_for(name: str) -> None:
    library = LIBRARIES[name]

    whole, _ = library(make_reply(ResponseExtras(logprobs=TOKENS))).both(**library.logprobs)

    match name:
        case "openai-chat":
            listed = whole["choices"][0]["logprobs"]["content"][2]["top_logprobs"]
        case "openai-responses":
            listed = whole["output"][0]["content"][0]["logprobs"][2]["top_logprobs"]
        case _:
            listed = whole["candidates"][0]["logprobs_result"]["top_candidates"][2]["candidates"]
    assert [item["token"] for item in listed] == ["ja", TOKENS[2].text]


def test_places_in_a_text_are_characters_in_one_interface_and_bytes_in_another() -> None:
    chat, _ = Chat(make_reply(ResponseExtras(citations=PAGES))).both()
    google, _ = Gemini(make_reply(ResponseExtras(citations=PAGES))).both()

    cited = [
        annotation["url_citation"] for annotation in chat["choices"][0]["message"]["annotations"]
    ]
    assert [TEXT[item["start_index"] : item["end_index"]] for item in cited] == [
        "Zürich", "30 degrees", "sunny",
    ]  # fmt: skip
    supports = google["candidates"][0]["grounding_metadata"]["grounding_supports"]
    places = [
        (support["segment"]["start_index"], support["segment"]["end_index"]) for support in supports
    ]
    assert [TEXT.encode()[start:end].decode() for start, end in places] == [
        "Zürich", "30 degrees", "sunny",
    ]  # fmt: skip
    assert [support["grounding_chunk_indices"] for support in supports] == [[0], [0], [1]]


def test_lists_are_merged_item_by_item() -> None:
    body = {"a": [{"b": 1}, {"c": 2}], "d": "x"}

    assert merged(body, {"a": [{}, {"e": 3}, {"f": 4}], "d": None}) == {
        "a": [{"b": 1}, {"c": 2, "e": 3}, {"f": 4}],
        "d": None,
    }

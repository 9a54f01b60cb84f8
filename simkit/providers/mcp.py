"""The Model Context Protocol, as servers speak it: messages to answers, and to recordings. Pure.

It speaks the handshake of 2024-11-05 to 2025-11-25. Clients of 2026-07-28 ask `server/discover`
first, get the error for an unknown method, and then use the handshake, as the specification has
it. Sources: modelcontextprotocol.io/specification/2025-11-25, basic/lifecycle, server/tools.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.messages import JsonValue
from simkit.core.text import short
from simkit.providers import sse
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.values import JSON

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol that are spoken, the newest first."""
_SAMPLE_TOKENS: Final = 1_000
_NO_METHOD: Final = -32601
_WRONG_PARAMS: Final = -32602
_NO_RESOURCE: Final = -32002


_NO_PARSE: Final = {"code": -32700, "message": "Parse error"}
NO_JSON: Final[JsonValue] = {"jsonrpc": "2.0", "id": None, "error": _NO_PARSE}
"""The answer to what is no JSON."""


class ToolDefinition(msgspec.Struct, frozen=True):
    """A tool that a server lists."""

    description: str = ""
    args: JsonValue = None
    """The JSON Schema of the arguments; None for any."""
    returns: JsonValue = None
    """The JSON Schema of the result; None for a text."""
    asks: str = ""
    """Its question to the user, before it does anything; empty for none."""
    answer: JsonValue = None
    """The JSON Schema of the user's answer."""
    samples: str = ""
    """Its prompt for the client's model; empty for none."""
    progress: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True):
    """A server: all that it lists."""

    name: str
    instructions: str = ""
    tools: Mapping[str, ToolDefinition] = {}
    resources: Mapping[str, JsonValue] = {}
    prompts: Mapping[str, str] = {}
    changes: bool = False
    """Whether its tools may change, which it then tells."""


class ToolOutcome(msgspec.Struct, frozen=True):
    """The end of a tool call."""

    result: JsonValue = None
    error: str = ""
    """The error for the model; empty if there is none."""


Finish: TypeAlias = Callable[[ToolOutcome | None], ToolOutcome]
"""Ends a call, with an outcome that the client's user or model gave, if one did."""
BeginCall: TypeAlias = Callable[[str, JsonValue], Finish]
"""Begins the call of a tool by its name, with its arguments."""
Dialogue: TypeAlias = Generator[dict[str, Any], Mapping[str, Any] | None, None]
"""Yields what a server says to a request, its answer last; is sent the answers to questions."""
ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"


class ServerEnded(Exception):
    """The server ends instead of an answer; ``args`` hold the text that it prints before."""


class _Wrong(Exception):
    """A request that is answered with an error: code and message."""


def decoded(line: bytes) -> Any:
    """Return a message, or several; None for what is no JSON."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None


def is_request(message: Any) -> bool:
    """Return whether a message wants an answer."""
    return isinstance(message, Mapping) and "method" in message and "id" in message


def dialogue(
    message: Mapping[str, Any], server: Definition, abilities: Mapping[str, Any], begin: BeginCall
) -> Dialogue:
    """Yield what a declared server says to a request; ``abilities`` are the client's."""
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    try:
        method = message["method"]
        if method in _RESULTS:
            yield _reply(message, result=_RESULTS[method](params, server))
            return
        if method != "tools/call":
            raise _Wrong(_NO_METHOD, f"Method not found: {method}")
        name = params.get("name")
        tool = server.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _Wrong(_WRONG_PARAMS, f"Unknown tool: {name}")
    except _Wrong as wrong:
        code, text = wrong.args
        yield _reply(message, error={"code": code, "message": text})
        return
    finish = begin(str(name), params.get("arguments") or {})
    for number, text in enumerate(tool.progress, 1):
        yield from progress(message, number, text)
    given = None
    if tool.asks:
        given = yield from _elicited(tool, abilities)
    if given is None and tool.samples:
        given = yield from _sampled(tool, abilities)
    yield _reply(message, result=call_result(finish(given), tool))


def progress(message: Mapping[str, Any], number: int, text: str) -> Dialogue:
    """Yield that a request makes progress, if its client wants to know."""
    token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": number, "message": text}
        yield {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


_Given: TypeAlias = Generator[dict[str, Any], Mapping[str, Any] | None, ToolOutcome | None]


def _elicited(tool: ToolDefinition, abilities: Mapping[str, Any]) -> _Given:
    """Ask the user; return the end of the call without consent."""
    if "elicitation" not in abilities:
        return ToolOutcome(error="The client takes no questions of servers (elicitation).")
    schema = tool.answer or {"type": "object", "properties": {}}
    reply = yield question(ELICIT, {"message": tool.asks, "requestedSchema": schema})
    action = ((reply or {}).get("result") or {}).get("action")
    return None if action == "accept" else ToolOutcome(error=f"The user's answer: {action}")


def _sampled(tool: ToolDefinition, abilities: Mapping[str, Any]) -> _Given:
    """Ask the client's model; return what it says."""
    if "sampling" not in abilities:
        return ToolOutcome(error="The client has no model for servers (sampling).")
    messages = [{"role": "user", "content": _text(tool.samples)}]
    reply = yield question(SAMPLE, {"messages": messages, "maxTokens": _SAMPLE_TOKENS})
    content = ((reply or {}).get("result") or {}).get("content")
    text = "\n".join(texts_in(content))
    return ToolOutcome(text) if text else ToolOutcome(error="The client's model said nothing.")


def question(method: str, params: JsonValue) -> dict[str, Any]:
    """Return a server's request, which gets its id when it is sent."""
    return {"jsonrpc": "2.0", "id": None, "method": method, "params": params}


def sampled_texts(params: Any) -> list[str]:
    """Return the texts that a server asks a model."""
    return [text for each in params.get("messages") or () for text in texts_in(each["content"])]


def texts_in(content: Any) -> list[str]:
    """Return the texts of a message's content: one part, or several."""
    parts = content if isinstance(content, list) else [content]
    return [each["text"] for each in parts if isinstance(each, Mapping) and "text" in each]


# The exchange with a real server, as a cassette keeps it: without ids, whatever the transport

RECORDED: Final = "MCP"
"""The method of recorded requests; their address is ``mcp:SERVER/METHOD``."""
SESSION: Final = (("mcp-session-id", "session"),)
"""The header of a response that begins a session."""
_LISTS: Final = {
    "tools/list": ("tools", "name", "tool"),
    "resources/list": ("resources", "uri", "resource"),
    "prompts/list": ("prompts", "name", "prompt"),
}
"""Method to the key of its list, the key of an entry's name, and the noun of an entry."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


def request_for(server: str, message: Mapping[str, Any]) -> HttpRequest:
    """Return the recorded form of a request.

    A client's name and abilities are no part of it, so that another client's request is the same.
    """
    params = {} if message["method"] == "initialize" else message.get("params") or {}
    params_sent = {key: value for key, value in params.items() if key != "_meta"}
    return HttpRequest(RECORDED, f"mcp:{server}/{message['method']}", JSON, _encode(params_sent))


def response_for(
    messages: Sequence[Mapping[str, Any]], *, has_session: bool = False
) -> HttpResponse:
    """Return the recorded form of an answer, the last message, and of what came before it.

    ``has_session``: over HTTP it began a session, after which clients behave in another way.
    """
    *before, last = messages
    body = {key: value for key, value in last.items() if key not in ("jsonrpc", "id")}
    # As it came: the order of a schema's keys is part of what models are sent.
    encoded = msgspec.json.encode({"before": before, **body} if before else body)
    return HttpResponse(200, (*JSON, *(SESSION if has_session else ())), (encoded,))


def response_for_end(text: str) -> HttpResponse:
    """Return the recorded form of a server that ended before it answered; ``text`` says how."""
    return HttpResponse(500, JSON, (_encode({"ended": text}),))


def messages_of(recorded: HttpResponse, number: JsonValue) -> list[dict[str, Any]]:
    """Return the messages of a recorded answer to the request with this id.

    A question to the client has what that said under ``answer``.

    Raise ServerEnded if the server ended instead.
    """
    body = msgspec.json.decode(recorded.body)
    if "ended" in body:
        raise ServerEnded(body["ended"])
    return [*body.pop("before", ()), {"jsonrpc": "2.0", "id": number, **body}]


def messages_in(response: HttpResponse) -> list[Any]:
    """Return the messages in the response to an HTTP request; none in a body of another kind."""
    is_stream = sse.is_stream(response)
    lines = [text.encode() for _, text in sse.events(response.body)] if is_stream else []
    messages = [each for each in map(decoded, lines or [response.body]) if each is not None]
    return messages[0] if len(messages) == 1 and isinstance(messages[0], list) else messages


def outcome_of(answer: Mapping[str, Any]) -> ToolOutcome:
    """Return the outcome of a tool's call that a server has answered so."""
    if "error" in answer:
        return ToolOutcome(error=str(answer["error"].get("message") or answer["error"]))
    result = answer.get("result") or {}
    texts = [each.get("text", f"[{each.get('type')}]") for each in result.get("content") or ()]
    text = "\n".join(texts)
    if result.get("isError"):
        return ToolOutcome(error=text or "the tool failed")
    structured = result.get("structuredContent")
    if isinstance(structured, dict):
        return ToolOutcome(structured["result"] if [*structured] == ["result"] else structured)
    return ToolOutcome(text)


def changes(recorded: HttpRequest, before: HttpResponse, now: HttpResponse) -> list[str] | None:
    """Return how a list differs from the recorded one, a line for each; None for no list."""
    kind = _LISTS.get(recorded.url.partition("/")[2])
    if kind is None:
        return None
    recorded_entries, entries = (_entries(each, *kind[:2]) for each in (before, now))
    lines: list[str] = []
    for name in {**recorded_entries, **entries}:
        old, new = recorded_entries.get(name), entries.get(name)
        if old is None or new is None:
            lines.append(f"{'+' if old is None else '-'} {kind[2]} `{name}`")
            continue
        for key in sorted({**old, **new}):
            if old.get(key) != new.get(key):
                texts = (short(_text_of(each.get(key)), 200) for each in (old, new))
                lines.append(f"~ {kind[2]} `{name}`, {key}: {' → '.join(texts)}")
    return lines


def _entries(response: HttpResponse, key: str, name: str) -> dict[str, Mapping[str, Any]]:
    listed = (msgspec.json.decode(response.body).get("result") or {}).get(key) or ()
    return {str(each.get(name)): each for each in listed}


def _text_of(value: JsonValue) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


# The answers of a scripted server


def failure(message: Mapping[str, Any], problem: str) -> dict[str, Any]:
    """Return the answer to a request that the scenario cannot answer."""
    return _reply(message, error={"code": -32603, "message": problem})


def unknown_method(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request for a method that a server does not have."""
    text = f"Method not found: {message['method']}"
    return _reply(message, error={"code": _NO_METHOD, "message": text})


def _reply(message: Mapping[str, Any], **outcome: JsonValue) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], **outcome}


def _greeting(params: Mapping[str, Any], server: Definition) -> JsonValue:
    version = params.get("protocolVersion")
    offers = {"tools": server.tools, "resources": server.resources, "prompts": server.prompts}
    greeting: dict[str, JsonValue] = {
        "protocolVersion": version if version in VERSIONS else VERSIONS[0],
        "capabilities": {
            name: {"listChanged": True} if name == "tools" and server.changes else {}
            for name, offered in offers.items()
            if offered
        },
        "serverInfo": {"name": server.name, "version": ""},
    }
    return {**greeting, "instructions": server.instructions} if server.instructions else greeting


def _listed(name: str, tool: ToolDefinition) -> JsonValue:
    listed: dict[str, JsonValue] = {
        "name": name,
        "description": tool.description,
        "inputSchema": tool.args or {"type": "object"},
    }
    return {**listed, "outputSchema": _output_schema(tool)} if tool.returns is not None else listed


def _output_schema(tool: ToolDefinition) -> JsonValue:
    """Return the schema of a structured result, which is always an object."""
    if _is_object(tool.returns):
        return tool.returns
    return {"type": "object", "properties": {"result": tool.returns}, "required": ["result"]}


def _is_object(schema: JsonValue) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "object"


def call_result(outcome: ToolOutcome, tool: ToolDefinition) -> JsonValue:
    """Return an outcome in the protocol; a result that has its ``content`` is taken as it is."""
    result = outcome.result
    if outcome.error:
        return {"content": [_text(outcome.error)], "isError": True}
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        return result
    text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    answer: dict[str, JsonValue] = {"content": [_text(text)], "isError": False}
    if tool.returns is not None:
        answer["structuredContent"] = result if _is_object(tool.returns) else {"result": result}
    return answer


def _text(text: str) -> JsonValue:
    return {"type": "text", "text": text}


def _content(uri: Any, server: Definition) -> JsonValue:
    if not isinstance(uri, str) or uri not in server.resources:
        raise _Wrong(_NO_RESOURCE, f"Resource not found: {uri}")
    content = server.resources[uri]
    if isinstance(content, str):
        return {"uri": uri, "mimeType": "text/plain", "text": content}
    encoded = msgspec.json.encode(content).decode()
    return {"uri": uri, "mimeType": "application/json", "text": encoded}


def _prompt(name: Any, server: Definition) -> JsonValue:
    if not isinstance(name, str) or name not in server.prompts:
        raise _Wrong(_WRONG_PARAMS, f"Unknown prompt: {name}")
    return {"messages": [{"role": "user", "content": _text(server.prompts[name])}]}


_RESULTS: Final[Mapping[str, Callable[[Mapping[str, Any], Definition], JsonValue]]] = {
    "initialize": _greeting,
    "ping": lambda params, server: {},
    "logging/setLevel": lambda params, server: {},
    "tools/list": lambda params, server: {
        "tools": [_listed(name, tool) for name, tool in server.tools.items()]
    },
    "resources/list": lambda params, server: {
        "resources": [{"uri": uri, "name": uri} for uri in server.resources]
    },
    "resources/templates/list": lambda params, server: {"resourceTemplates": []},
    "resources/read": lambda params, server: {"contents": [_content(params.get("uri"), server)]},
    "prompts/list": lambda params, server: {"prompts": [{"name": name} for name in server.prompts]},
    "prompts/get": lambda params, server: _prompt(params.get("name"), server),
}
"""Method to what a declared server answers; calls of tools are dialogues."""

"""Servers: MCP servers, remote agents and HTTP addresses that the scenario answers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from simkit.language.matching import kinds
from simkit.spec import fields

METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


_TYPES: Final = ("array", "boolean", "integer", "null", "number", "object", "string")


def _written_out(value: Any) -> Any:
    """Return a schema for its short form: `string`, or `{path: string}` for an object."""
    if isinstance(value, str) and value in _TYPES:
        return {"type": value}
    if isinstance(value, dict) and value and all(each in _TYPES for each in value.values()):
        properties = {name: {"type": each} for name, each in value.items()}
        if set(value) != {"type"}:
            return {"type": "object", "properties": properties, "required": [*properties]}
    return value


ShortSchema = Annotated[fields.SchemaValue, BeforeValidator(_written_out)]
"""A JSON Schema; `string` and `{path: string}` are short for those of a text, and of an object
with this property, which is required."""


class ServerTool(fields.YamlModel):
    """A tool of an MCP server. Its results stand under `tool_results`, as those of all tools."""

    noun: ClassVar[str] = "key of a server's tool"
    description: fields.TextValue = ""
    """The description for models."""
    args: ShortSchema = None
    """The JSON Schema of the arguments; `{path: string}` is short for an object's."""
    returns: ShortSchema = None
    """The JSON Schema of the result; without it, a result is text."""
    asks: fields.TextValue = ""
    """The question that it asks the user first (elicitation). The answer is under
    `elicits`; without one, the client answers. Without consent, the tool fails."""
    answer: ShortSchema = None
    """The JSON Schema of the user's answer, an object."""
    samples: fields.TextValue = ""
    """Its prompt for its client's model (sampling). The call's agent has the server's name; its
    reply is the result, unless `tool_results` has one."""
    progress: Annotated[tuple[fields.TextValue, ...], fields.OneOrMore(str)] = ()
    """The progress that it reports to clients that ask for it."""


class ServerEnd(fields.YamlModel):
    """How a server's process ends early. A text alone: it ends at its start."""

    noun: ClassVar[str] = "key of a server's end"
    text: fields.TextValue
    """The text that it prints before it ends."""
    at: fields.TextValue = ""
    """The tool or protocol method that ends it when called; without it, it ends at its start."""
    call: fields.Positive = 1
    """Which call of `at` ends it, counted from 1."""
    hangs: fields.Flag = False
    """If true, it does not end: it reports the text as progress, and never answers."""


class ServerChange(fields.YamlModel):
    """A change of a server's tools; the server notifies its clients."""

    noun: ClassVar[str] = "key of a server's change"
    after: fields.TextValue
    """The tools change after the first call of this tool."""
    tools: dict[str, ServerTool]
    """The tools from then on."""


DECLARED: Final = "declared"
RECORDED: Final = "recorded"
REAL: Final = "real"


class McpServer(fields.YamlModel):
    """A server of the Model Context Protocol, over stdio, streamable HTTP or SSE.

    `recorded` alone stands for `{source: recorded}`, `real` for `{source: real}`.
    """

    noun: ClassVar[str] = "key of an MCP server"
    source: Literal["declared", "recorded", "real"] = "declared"
    """The source of its answers: the scenario; a cassette, which `simkit record` fills from the
    real server; the real server, in replay, too. All other keys are for `declared` alone."""
    instructions: fields.TextValue = ""
    """A text for clients about the server."""
    tools: dict[str, ServerTool] = Field(default_factory=dict)
    """Tool to its definition."""
    resources: dict[str, Any] = Field(default_factory=dict)
    """URI to the content of the resource: a text, or a value that is sent as JSON."""
    prompts: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Prompt to its text."""
    fails: Annotated[ServerEnd | None, fields.text_as("text"), fields.OrText] = None
    """How its process ends early; a text alone is what it prints, at its start."""
    changes: ServerChange | None = None
    """How its tools change."""


class RemoteAgent(fields.YamlModel):
    """A remote agent that speaks A2A. The server's name is the agent's; reply lines answer it.

    `recorded` alone stands for `{source: recorded}`.
    """

    noun: ClassVar[str] = "key of a remote agent"
    source: Literal["declared", "recorded"] = "declared"
    """The source of its answers: reply lines, or the cassette."""
    card: dict[str, Any] | fields.TextValue = Field(default_factory=dict)
    """Its card, or a JSON file that holds it; simkit adds what is missing."""
    answers: Literal["message", "task"] = "message"
    """Whether it answers with a message, or with a task that has an artifact."""


class HttpAnswer(fields.YamlModel):
    """The answer to an HTTP request. A text alone is its body."""

    noun: ClassVar[str] = "key of an HTTP answer"
    status: Annotated[int, Field(ge=100, le=599)] = 200
    """The status."""
    headers: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Headers, beside the content type."""
    text: fields.TextValue = ""
    """The body."""
    body: Any = Field(default=None, alias="json")
    """The body as a value, sent as JSON."""
    latency_ms: fields.Count = 0
    """The virtual time before the answer, in milliseconds."""


def _route(route: str) -> str:
    """Return a route; reject one without a method or an address."""
    method, _, url = route.partition(" ")
    if method not in METHODS or not url.startswith(("http://", "https://")):
        raise fields.refuse(
            f"a route is a method and an address, not {fields.shown_value(route)}",
            advice="Write `GET https://example.com/status`; `*` stands for any text.",
        )
    return route


Routes = dict[
    Annotated[str, AfterValidator(_route)],
    Annotated[
        tuple[Annotated[HttpAnswer, fields.text_as("text", int, float)], ...],
        fields.OneOrMore(str, dict),
        Field(min_length=1),
    ],
]


class Server(fields.YamlModel):
    """An MCP server, a remote agent or HTTP addresses: exactly one of `mcp`, `a2a`, `http`."""

    noun: ClassVar[str] = "key of a server"
    match: Annotated[Any, fields.matcher_of(kinds.TEXT), fields.AS_MATCHER] = None
    """A matcher of the command line that starts it, or of its address. Without it, the server's
    name is a word of either: `files` in `npx -y @acme/server-files /data`."""
    mcp: Annotated[McpServer | None, fields.text_as("source"), fields.OrText] = None
    """An MCP server. If it is declared or recorded, simkit neither starts its process nor connects
    to its address."""
    a2a: Annotated[RemoteAgent | None, fields.text_as("source"), fields.OrText] = None
    """A remote agent, which is an agent of the scenario."""
    http: Routes | None = None
    """Route to its answer, or to one for each request: `GET https://example.com/status`."""


_METHODS: Final = ("initialize", "tools/list", "tools/call", "resources/list", "prompts/list")


def _one_protocol(server: Server) -> Server:
    if [server.mcp, server.a2a, server.http].count(None) != 2:
        raise fields.refuse(
            "a server has exactly one of `mcp`, `a2a` and `http`",
            advice="Write `mcp: {tools: {…}}`, `a2a: {card: {…}}`, or "
            "`http: {GET https://example.com/status: {…}}`.",
        )
    if server.mcp is not None:
        _check_mcp(server.mcp)
    return server


def _check_mcp(server: McpServer) -> None:
    """Reject what a server's source rules out, and names of tools that it does not have."""
    others = sorted(server.model_fields_set - {"source"})
    if server.source != DECLARED and others:
        raise fields.refuse(
            f"a {server.source} server says itself what it has: `{others[0]}` is for declared ones",
            advice="What its tools return can be replaced under `tool_results`.",
        )
    later = server.changes.tools if server.changes else ()
    named = (
        ("fails.at", server.fails.at if server.fails else "", (*server.tools, *later, *_METHODS)),
        ("changes.after", server.changes.after if server.changes else "", (*server.tools,)),
    )
    for key, name, known in named:
        if name and name not in known:
            raise fields.refuse(f"`{key}`: the server has no `{name}`", word=name, known=known)


Servers = dict[str, Annotated[Server, AfterValidator(_one_protocol)]]
"""Server to its definition."""

"""Steps of OTLP's spans: by GenAI conventions of several versions, OpenInference and Langfuse.

Steps are the model calls, tool runs, agent runs and handoffs that spans of any exporter tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal

import msgspec

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.exports import UNREADABLE, Span, mapping_or_empty, reading
from simkit.capture.telemetry.messages import (
    ContentMissing,
    answer_in,
    loaded,
    messages_in,
    of_openinference,
    offers_in,
    unflattened,
)
from simkit.core.messages import ABSENT, Fails, JsonValue, Message
from simkit.providers.failures import FAILURES, kind_of_status
from simkit.providers.values import Offer

Kind = Literal["model", "tool", "agent", "handoff", "other"]


class Step(msgspec.Struct, kw_only=True):
    """One thing that an application did."""

    id: str
    trace: str
    parent: str = ""
    kind: Kind = "other"
    name: str = ""
    """Of a tool or an agent; of a handoff its target."""
    agent: str = ""
    """The agent that the step itself names."""
    session: str = ""
    start: int = 0
    end: int = 0
    messages: tuple[Message, ...] | None = None
    """The context of a model call; None if the export does not have it."""
    answer: Message | None = None
    offers: tuple[Offer, ...] = ()
    failed: bool = False
    status: str = ""
    args: JsonValue = ABSENT
    result: JsonValue = ABSENT
    server: str = ""
    """The MCP server of a tool."""
    text: str = ""
    """The user's message, where a step around all others has it."""
    outcome: str = ""
    """The text with which an agent, or a step around all others, ended."""
    missing: list[str] = []
    """Its parts that the export does not have."""
    attributes: Mapping[str, Any] = {}
    lacks_texts: bool = False
    """Whether texts beside tool calls are left out."""

    @property
    def error(self) -> Fails | None:
        """Return how a model call failed; None if that is not known, or it did not."""
        return failure_of(self.status) if self.failed else None


_CODE: Final = re.compile(r"(?:Error code:|HTTP|status)\D{0,4}(\d{3})\b", re.IGNORECASE)
_KINDS: Final = (
    ("rate_limit", re.compile(r"rate.?limit", re.IGNORECASE)),
    ("timeout", re.compile(r"time[d ]?.?out", re.IGNORECASE)),
    ("connection", re.compile(r"connection error|APIConnectionError", re.IGNORECASE)),
)


def failure_of(status: str) -> Fails | None:
    """Return the failure of a provider that an error speaks of, as scenarios name it."""
    code = _CODE.search(status)
    kind = kind_of_status(int(code[1])) if code else ""
    kind = next((word for word in status.split() if word in FAILURES), kind)
    kind = kind or next((name for name, pattern in _KINDS if pattern.search(status)), "")
    if not kind:
        return None
    usual = FAILURES[kind]
    return Fails(kind, usual.status, usual.message)


@contextmanager
def reading_part(step: Step, subject: str) -> Iterator[None]:
    """Note a part of a step that cannot be read, and go on without it."""
    try:
        yield
    except (ContentMissing, *UNREADABLE) as problem:
        why = f": {problem}" if isinstance(problem, ContentMissing) else ""
        step.missing.append(f"{subject} cannot be read{why}")


def or_absent(value: Any) -> JsonValue:
    return ABSENT if value is None else loaded(value)


def tool_result(value: JsonValue) -> JsonValue:
    """Return the result of a tool, without the message that LangChain makes of it."""
    if isinstance(value, Mapping):
        if "output" in value and len(value) == 1:
            return tool_result(value["output"])
        for inner in (value.get("kwargs"), value.get("data"), value):
            if isinstance(inner, Mapping) and inner.get("type") == "tool" and "content" in inner:
                return inner["content"]
    return value


_JSON_START: Final = re.compile(r"[{\[]\s*($|[\"{\[])")
"""The beginning of JSON, and hardly of a text that a user wrote."""


def read_ends(step: Step, source: Any, output: Any) -> None:
    """Read the texts with which an agent's or an outermost step began and ended."""
    if not step.parent and step.kind != "model":
        with reading_part(step, "the user's message that its outermost span has"):
            step.text = _last_text(source)
    if step.kind == "agent" or (step.kind == "other" and not step.parent):
        with suppress(ContentMissing, *UNREADABLE):
            step.outcome = _last_text(output)


def _last_text(value: Any) -> str:
    """Return a text, or that of the last message of a graph; empty for other values."""
    value = loaded(value)
    if isinstance(value, str) and _JSON_START.match(value):
        raise ContentMissing("it is cut off")
    if isinstance(value, Mapping):
        value = value.get("messages", value.get("input", value.get("output")))
    if isinstance(value, list) and value and not isinstance(value[-1], str):
        value = messages_in(value)[-1].content
    return value if isinstance(value, str) else ""


# LangGraph, as LangChain's callbacks show it


def node_metadata(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of LangGraph on a node; empty for others."""
    whole = loaded(attributes.get("metadata"))
    if isinstance(whole, Mapping) and "langgraph_node" in whole:
        return whole
    prefix = "langfuse.observation.metadata."
    parts = {
        key.removeprefix(prefix): _unquoted(value)
        for key, value in attributes.items()
        if key.startswith(prefix)
    }
    return parts if "langgraph_node" in parts else {}


def _unquoted(value: Any) -> Any:
    """Return the text in a text of JSON: Langfuse writes metadata so."""
    is_quoted = isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"'
    return value[1:-1] if is_quoted else value


_MODEL_NODES: Final = ("agent", "model", "call_model")
"""The node of a prebuilt agent that asks the model; the agent is called as its graph."""


def name_graph_agents(steps: Sequence[Step]) -> None:
    by_id = {step.id: step for step in steps}
    for step in steps:
        metadata = node_metadata(step.attributes)
        if metadata and step.kind in ("model", "tool"):
            outermost = step
            while outermost.parent in by_id:
                outermost = by_id[outermost.parent]
            graph = str(outermost.attributes.get("graph.name", "")) or outermost.name
            step.agent = agent_in_graph(metadata, graph)
        session = metadata.get("thread_id")
        step.session = step.session or str(session or "")


def agent_in_graph(metadata: Mapping[str, Any], graph: str) -> str:
    """Return the agent of a node, by the path of graphs to it."""
    place = str(metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or "")
    path = [part.partition(":")[0] for part in place.split("|") if part]
    path = path or [str(metadata["langgraph_node"])]
    if path[-1] not in _MODEL_NODES:
        return path[-1]
    if len(path) > 1:
        return path[-2]
    return path[-1] if graph in ("", "LangGraph") else graph


def steps_of_spans(spans: Sequence[Span], problems: list[str]) -> list[Step]:
    """Return the step of each span, without those that cannot be read."""
    limit = _length_limit(spans)
    steps = []
    for span in spans:
        with reading(f"span {span.name!r}", problems):
            steps.append(_step(span, limit))
    return steps


def _length_limit(spans: Sequence[Span]) -> int:
    """Return the length at which an exporter cut texts; 0 if it cut none.

    It shows in a text that begins as JSON, ends before its end, and is the longest.
    """
    texts = [v for span in spans for v in span.attributes.values() if isinstance(v, str)]
    longest = max(map(len, texts), default=0)
    is_cut = any(
        len(text) == longest and text.startswith(("{", "[")) and loaded(text) is text
        for text in texts
    )
    return longest if is_cut else 0


_SESSIONS: Final = (names.RUN, names.SCENARIO, *names.SESSIONS)
"""All sessions of a run that simkit exported are one scenario again."""


class _Attributes(dict[str, Any]):
    """Attributes of a span; one that was cut off raises ContentMissing when it is read."""

    def __init__(self, values: Mapping[str, Any], limit: int) -> None:
        super().__init__(values)
        self.limit = limit

    def first(self, *keys: str) -> Any:
        """Return the first attribute of these names; None if there is none."""
        for key in keys:
            value = self.get(key)
            if value is not None:
                if self.limit and isinstance(value, str) and len(value) == self.limit:
                    raise ContentMissing(f"{key} is cut off after {self.limit} characters")
                return value
        return None

    def check(self, prefix: str) -> None:
        """Raise ContentMissing if an attribute below a prefix was cut off."""
        for key in self:
            if key.startswith(f"{prefix}."):
                self.first(key)


def _step(span: Span, limit: int) -> Step:
    attributes = _Attributes(span.attributes, limit)
    step = Step(
        id=span.id,
        trace=span.trace,
        parent=span.parent,
        session=str(next((attributes[key] for key in _SESSIONS if key in attributes), "")),
        name=span.name,
        agent=str(attributes.get(names.AGENT, "")),
        start=span.start,
        end=span.end,
        failed=span.failed or names.ERROR in attributes,
        status=" ".join([span.status, str(attributes.get(names.ERROR, "")), *_exceptions(span)]),
        missing=[],
        attributes=attributes,
    )
    if names.KIND in attributes:
        _read_openinference(step, attributes, span)
    elif names.OBSERVATION in attributes:
        _read_langfuse(step, attributes, span)
    else:
        _read_genai(step, attributes, span)
    if span.cut and step.kind == "model":
        step.missing.append(f"its exporter dropped {span.cut} of its attributes")
    return step


def _exceptions(span: Span) -> list[str]:
    return [
        f"{attributes.get('exception.type', '')}: {attributes.get('exception.message', '')}"
        for name, _, attributes in span.events
        if name == "exception"
    ]


def _read_genai(step: Step, attributes: _Attributes, span: Span) -> None:
    operation = str(attributes.get(names.OPERATION, ""))
    if operation in names.ASKS or (names.OUTPUT in attributes and not step.agent):
        step.kind = "model"
        _read_genai_call(step, attributes, span)
    elif operation == names.TOOL or attributes.get(names.MCP_METHOD) == "tools/call":
        step.kind, step.name = "tool", str(attributes.get(names.TOOL_NAME, ""))
        step.status = span.status or step.status
        step.server = str(attributes.get(names.SERVER, ""))
        with reading_part(step, f"the arguments of {step.name!r}"):
            step.args = _value_of(attributes, names.ARGUMENTS, span)
        with reading_part(step, f"the result of {step.name!r}"):
            step.result = _of_server(step, _value_of(attributes, names.RESULT, span))
    elif names.HANDOFF_TO in attributes:
        step.kind, step.name = "handoff", str(attributes[names.HANDOFF_TO])
    elif step.agent and operation in names.INVOKES:
        step.kind, step.name = "agent", step.agent
    read_ends(step, attributes.get(names.INPUT), attributes.get(names.OUTPUT))


def _value_of(attributes: _Attributes, key: str, span: Span) -> JsonValue:
    if span.scope == names.OWN:
        return attributes.get(key, ABSENT)
    return or_absent(attributes.first(key))


def _read_genai_call(step: Step, attributes: _Attributes, span: Span) -> None:
    details = [more for name, _, more in span.events if name == names.DETAILS]
    merged = _Attributes({**attributes, **(details[-1] if details else {})}, attributes.limit)
    with reading_part(step, "what the model was sent"):
        _read_genai_input(step, merged, span)
    with reading_part(step, "the model's reply"):
        output = merged.first(names.OUTPUT, "gen_ai.completion")
        if output is not None:
            step.answer = answer_in(_whole(output))
        for name, body, more in span.events:
            if name == names.CHOICE and step.answer is None:
                step.answer = answer_in([body if isinstance(body, Mapping) else more])
    with reading_part(step, "the tools that the model was offered"):
        step.offers = offers_in(loaded(merged.first(names.OFFERS)))


def _read_genai_input(step: Step, attributes: _Attributes, span: Span) -> None:
    source = attributes.first(names.INPUT, "gen_ai.prompt")
    if source is None:
        items = [_of_event(*event) for event in span.events if event[0] in names.MESSAGE_EVENTS]
        step.lacks_texts = bool(items)
    else:
        items = _whole(source)
    system = attributes.first(names.SYSTEM)
    if system is not None:
        items = [{"role": "system", "parts": _whole(system)}, *items]
    step.messages = tuple(messages_in(items)) if items else None


def _of_event(name: str, body: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(body) if isinstance(body, Mapping) else dict(attributes)
    if "content" not in fields and "tool_calls" not in fields:
        raise ContentMissing("it was not captured")
    item = {"role": names.MESSAGE_EVENTS[name], **fields}
    if item["role"] == "tool":
        item.setdefault("tool_call_id", item.get("id", ""))
    return item


def _whole(value: Any) -> Any:
    """Return a structure; raise ContentMissing for a text that is the beginning of one."""
    value = loaded(value)
    if isinstance(value, str) and value.startswith(("{", "[")):
        raise ContentMissing("it is cut off")
    return value


_OPENINFERENCE: Final[Mapping[str, Kind]] = {"LLM": "model", "TOOL": "tool", "AGENT": "agent"}


def _read_openinference(step: Step, attributes: _Attributes, span: Span) -> None:
    step.kind = _OPENINFERENCE.get(str(attributes[names.KIND]), "other")
    if step.kind == "model":
        for key, subject in (("input", "what the model was sent"), ("output", "the model's reply")):
            with reading_part(step, subject):
                prefix = f"llm.{key}_messages"
                attributes.check(prefix)
                items = of_openinference(unflattened(attributes, prefix))
                if span.cut:
                    value = attributes.first(f"{key}.value")
                    items = [] if value is None else _whole(value)
                if items and key == "input":
                    step.messages = tuple(messages_in(items))
                elif items:
                    step.answer = answer_in(items)
        attributes.check("llm.tools")
        step.offers = offers_in([i.get("tool") for i in unflattened(attributes, "llm.tools")])
    elif step.kind == "tool":
        _read_tool(step, attributes, str(attributes.get("tool.name", span.name)), "input.value",
                   "output.value")  # fmt: skip
        if step.name.startswith("handoff to "):
            step.kind, step.name = "handoff", step.name.removeprefix("handoff to ")
    elif step.kind == "agent":
        step.name = str(attributes.get("agent.name") or attributes.get("graph.node.id", span.name))
        if node_metadata(attributes):  # Each node of a graph is called an agent.
            step.kind = "other"
    read_ends(step, attributes.get("input.value"), attributes.get("output.value"))


def _read_tool(step: Step, attributes: _Attributes, name: str, args: str, result: str) -> None:
    step.name = name
    with reading_part(step, f"the arguments of {name!r}"):
        step.args = or_absent(attributes.first(args))
    with reading_part(step, f"the result of {name!r}"):
        step.result = _of_server(step, tool_result(or_absent(attributes.first(result))))


def _of_server(step: Step, result: JsonValue) -> JsonValue:
    """Return the text of a result in MCP's form, and note that nothing names its server."""
    if not isinstance(result, Mapping) or {*result} != {"type", "text"} or step.server:
        return result
    step.missing.append("no span names its MCP server: declare it under `servers:`")
    return result["text"]


def _read_langfuse(step: Step, attributes: _Attributes, span: Span) -> None:
    kind = str(attributes[names.OBSERVATION])
    kinds: Mapping[str, Kind] = {"generation": "model", "tool": "tool", "agent": "agent"}
    step.kind = kinds.get(kind, "other")
    step.status = f"{step.status} {attributes.get('langfuse.observation.status_message', '')}"
    step.failed = step.failed or attributes.get("langfuse.observation.level") == "ERROR"
    if step.kind == "model":
        with reading_part(step, "what the model was sent"):
            source = _whole(attributes.first("langfuse.observation.input"))
            if isinstance(source, Mapping):
                step.offers = offers_in(source.get("tools"))
            elif isinstance(source, list):  # LangChain's tools stand between the messages.
                tools = [item["content"] for item in source if _is_offer(item)]
                step.offers = offers_in(tools)
                source = [item for item in source if not _is_offer(item)]
            step.messages = None if source is None else tuple(messages_in(source))
        with reading_part(step, "the model's reply"):
            output = attributes.first("langfuse.observation.output")
            step.answer = None if output is None else answer_in(_whole(output))
    elif step.kind == "tool":
        _read_tool(step, attributes, span.name, "langfuse.observation.input",
                   "langfuse.observation.output")  # fmt: skip
    elif step.kind == "agent":
        step.name = span.name
        if node_metadata(attributes):
            step.kind = "other"
    read_ends(
        step, *map(attributes.get, ("langfuse.observation.input", "langfuse.observation.output"))
    )


def _is_offer(item: Any) -> bool:
    content = mapping_or_empty(mapping_or_empty(item).get("content"))
    return content.get("type") == "function" and item["role"] == "tool"

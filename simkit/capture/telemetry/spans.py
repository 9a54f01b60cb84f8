"""Steps of OTLP's spans: by GenAI conventions of several versions, OpenInference and Langfuse.

Steps are the model calls, tool runs, agent runs and handoffs that spans of any exporter tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import msgspec

from simkit.capture.telemetry import conventions as names
from simkit.capture.telemetry.exports import UNREADABLE, Span, mapping_or_empty, reading, text_of
from simkit.capture.telemetry.messages import (
    ContentMissing,
    answer_in,
    loaded,
    messages_in,
    offers_in,
    texts_in,
    unflattened,
)
from simkit.core.messages import ABSENT, Fails, JsonValue, Message
from simkit.core.text import short
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
    missing: list[str] = []
    """Its parts that the export does not have."""
    attributes: Mapping[str, Any] = {}
    failures: Set[str] = frozenset()
    """The calls whose tools failed: PydanticAI's traces have not the form that models see."""
    lacks_texts: bool = False
    """Whether texts beside tool calls are left out."""

    @property
    def error(self) -> Fails | None:
        """Return how a model call failed; None if that is not known, or it did not."""
        return failure_of(self.status) if self.failed else None


def outwards(step: Step, around: Mapping[str, Step]) -> Iterator[Step]:
    """Yield a step and those around it, the nearest first; in a ring each once."""
    at, path = step, set[str]()
    while at.id not in path:
        path.add(at.id)
        yield at
        at = around.get(at.parent, at)


def messages_of(step: Step) -> list[Message]:
    """Return what a model was sent, and its reply."""
    return [*(step.messages or ()), *filter(None, [step.answer])]


_CODE: Final = re.compile(r"(?:Error code:|HTTP|status)\D{0,8}(\d{3})\b", re.IGNORECASE)
_FAILURES: Final = (
    ("rate_limit", re.compile(r"rate.?limit", re.IGNORECASE)),
    ("timeout", re.compile(r"time[d ]?.?out", re.IGNORECASE)),
    ("connection", re.compile(r"connection error|APIConnectionError", re.IGNORECASE)),
)


def failure_of(status: str) -> Fails | None:
    """Return the failure of a provider that an error speaks of, as scenarios name it."""
    code = _CODE.search(status)
    kind = kind_of_status(int(code[1])) if code else ""
    kind = next((word for word in status.split() if word in FAILURES), kind)
    kind = kind or next((name for name, pattern in _FAILURES if pattern.search(status)), "")
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
        if "output" in value and {*value} <= {"output", "kwargs"}:
            return tool_result(value["output"])
        for inner in (value.get("kwargs"), value.get("data"), value):
            if isinstance(inner, Mapping) and inner.get("type") == "tool" and "content" in inner:
                return inner["content"]
    return value


Part = Callable[[], Any]
"""Returns a part of a step as the export has it, None for nothing; raises if it cannot be read."""


def read_parts(step: Step, source: Part, output: Part, offers: Part = lambda: None) -> None:
    """Read what a model or a tool was sent, and what came of it."""
    if step.kind == "model":
        with reading_part(step, "what the model was sent"):
            value = _whole(source())
            step.messages = None if value is None else tuple(messages_in(value))
        with reading_part(step, "the model's reply"):
            value = _whole(output())
            step.answer = None if value is None else answer_in(value)
        with reading_part(step, "the tools that the model was offered"):
            step.offers = offers_in(loaded(offers()))
    elif step.kind == "tool":
        with reading_part(step, f"the arguments of {step.name!r}"):
            step.args = or_absent(_whole(source()))
        with reading_part(step, f"the result of {step.name!r}"):
            step.result = _of_server(step, tool_result(or_absent(output())))


_JSON_START: Final = re.compile(r"[{\[]\s*($|[\"{\[])")
"""The beginning of JSON, and hardly of a text that a user wrote."""


def read_beginning(step: Step, source: Any) -> None:
    """Read the text with which an outermost step began."""
    if not step.parent and step.kind != "model":
        with reading_part(step, "the user's message that its outermost span has"):
            step.text = _last_text(source)


def _last_text(value: Any) -> str:
    """Return a text, or that of the last message of a graph; empty for other values."""
    value = _whole(value)
    if isinstance(value, Mapping):
        value = value.get("messages", value.get("input", value.get("output")))
    if isinstance(value, list) and value and not isinstance(value[-1], str):
        value = messages_in(value)[-1].content
    return value if isinstance(value, str) else ""


# LangGraph, as LangChain's callbacks show it


_GRAPH: Final = "langgraph_"
_METADATA: Final = ("langfuse.observation.metadata.", "traceloop.association.properties.")


def node_metadata(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of LangGraph on a node; empty for others."""
    whole = loaded(attributes.get("metadata"))
    if isinstance(whole, Mapping) and any(key.startswith(_GRAPH) for key in whole):
        return whole
    parts = {
        key.removeprefix(prefix): str(value).strip('"')  # Langfuse writes texts of JSON.
        for key, value in attributes.items()
        for prefix in _METADATA
        if key.startswith(prefix) and value is not None
    }
    return parts if any(key.startswith(_GRAPH) for key in parts) else {}


_MODEL_NODES: Final = ("agent", "model", "call_model")
"""The node of a prebuilt agent that asks the model; the agent is called as its graph."""


def name_graph_agents(steps: Sequence[Step], problems: list[str]) -> None:
    by_id = {step.id: step for step in steps}
    for step in steps:
        metadata = node_metadata(step.attributes)
        if metadata and "langgraph_node" not in metadata:
            problems.append(f"span {step.name!r} does not name its node")
        if metadata and step.kind in ("model", "tool"):
            outermost = [*outwards(step, by_id)][-1]
            graph = str(outermost.attributes.get("graph.name", "")) or outermost.name
            step.agent = agent_in_graph(metadata, graph)
        session = metadata.get("thread_id")
        step.session = step.session or str(session or "")


def agent_in_graph(metadata: Mapping[str, Any], graph: str) -> str:
    """Return the agent of a node, by the path of graphs to it."""
    namespace = str(metadata.get("langgraph_checkpoint_ns") or metadata.get("checkpoint_ns") or "")
    path = [part.partition(":")[0] for part in namespace.split("|") if part]
    path = path or [str(metadata.get("langgraph_node", ""))]
    if path[-1] not in _MODEL_NODES:
        return path[-1]
    if len(path) > 1:
        return path[-2]
    return path[-1] if graph in ("", "LangGraph") else graph


def steps_of_spans(spans: Sequence[Span], problems: list[str]) -> list[Step]:
    """Return the step of each span, without those that cannot be read."""
    steps = list[Step]()
    scopes = {span.scope for span in spans if _kind_of(span)}
    for span in spans:
        with reading(f"span {span.name!r}", problems):
            steps.append(_step(span))
            if span.scope in scopes:
                note_kind(span.name, _kind_of(span), problems)
    return steps


_KINDS: Final[Mapping[str, Kind]] = {
    "llm": "model", "generation": "model", "response": "model", "tool": "tool",
    "function": "tool", "agent": "agent", "handoff": "handoff",
}  # fmt: skip


def kind_of(word: Any) -> Kind:
    """Return the kind that OpenInference, Langfuse, LangSmith or OpenAI Agents name so."""
    return _KINDS.get(str(word).lower(), "other")


def note_kind(name: str, kind: str, problems: list[str]) -> None:
    """Note a kind of span that no known exporter writes."""
    if kind not in names.KINDS.split():
        problems.append(f"the span {name!r} is of no known kind ({kind or 'none'})")


def _kind_of(span: Span) -> str:
    """Return the word that says of what kind a span is; empty for none."""
    words = map(span.attributes.get, (names.KIND, names.OBSERVATION, names.OPERATION))
    return next((str(word).lower() for word in words if word is not None), "")


_SESSIONS: Final = (names.RUN, names.SCENARIO, *names.SESSIONS)
"""All sessions of a run that simkit exported are one scenario again."""


def _step(span: Span) -> Step:
    attributes = span.attributes
    errors = [
        f"{str(values.get('exception.type', '')).split('.')[-1]}: "
        f"{values.get('exception.message', '')}"
        for name, _, values in span.events
        if name == "exception"
    ]
    step = Step(
        id=span.id,
        trace=span.trace,
        parent=span.parent,
        session=str(next((attributes[key] for key in _SESSIONS if key in attributes), "")),
        name=span.name,
        agent=text_of(attributes.get(names.AGENT, "")),
        start=span.start,
        end=span.end,
        failed=span.failed or names.ERROR in attributes,
        status=" ".join([span.status, str(attributes.get(names.ERROR, "")), *errors]),
        attributes=attributes,
    )
    if names.KIND in attributes and span.scope != names.OWN:
        _read_openinference(step, attributes, span)
    elif names.OBSERVATION in attributes:
        _read_langfuse(step, attributes, span)
    else:
        _read_genai(step, attributes, span)
    _check_title(step, span.name)
    if span.cut and step.kind == "model":
        step.missing.append(f"its exporter dropped {span.cut} of its attributes")
    return step


def _read_genai(step: Step, attributes: Mapping[str, Any], span: Span) -> None:
    operation = str(attributes.get(names.OPERATION, ""))
    if _asks_model(step, operation, attributes):
        step.kind = "model"
        for name, _, more in span.events:
            attributes = {**attributes, **(more if name == names.DETAILS else {})}
        source = partial(_genai_input, step, attributes, span)
        output = partial(_genai_output, attributes, span)
        read_parts(step, source, output, partial(attributes.get, names.OFFERS))
    elif operation == names.TOOL or attributes.get(names.MCP_METHOD) == "tools/call":
        step.kind, step.name = "tool", text_of(attributes.get(names.TOOL_NAME, ""))
        step.status = span.status or step.status
        step.server = str(attributes.get(names.SERVER, ""))
        keys = (names.ARGUMENTS, names.RESULT)
        read_parts(step, *(partial(attributes.get, key) for key in keys))
        if span.scope == names.OWN:  # Its values have their types.
            step.args, step.result = (attributes.get(key, ABSENT) for key in keys)
    elif names.HANDOFF_TO in attributes:
        step.kind, step.name = "handoff", text_of(attributes[names.HANDOFF_TO])
    elif step.agent and operation in names.INVOKES:
        step.kind, step.name = "agent", step.agent
    read_beginning(step, attributes.get(names.INPUT))


def _asks_model(step: Step, operation: str, attributes: Mapping[str, Any]) -> bool:
    """Return whether a span is a model call; some exporters name no operation."""
    is_other = step.agent or operation in names.KINDS.split()
    return operation in names.ASKS or (names.OUTPUT in attributes and not is_other)


def _check_title(step: Step, title: str) -> None:
    """Note a title, which ends with the step's name by the conventions, that has another."""
    operation = str(step.attributes.get(names.OPERATION, ""))
    is_titled = operation in (names.TOOL, names.INVOKES[0]) and title.startswith(operation)
    if is_titled and not title.endswith(f" {step.name}"):
        step.missing.append(f"its span is called {title!r}, and names {step.name!r}")


def _genai_input(step: Step, attributes: Mapping[str, Any], span: Span) -> Any:
    source = attributes.get(names.INPUT, attributes.get("gen_ai.prompt"))
    if source is None:
        items = [_of_event(*event) for event in span.events if event[0] in names.MESSAGE_EVENTS]
        step.lacks_texts = bool(items)
    else:
        items = _whole(source)
    system = attributes.get(names.SYSTEM)
    if system is not None:
        items = [{"role": "system", "parts": _whole(system)}, *items]
    return items or None


def _genai_output(attributes: Mapping[str, Any], span: Span) -> Any:
    choices = [
        [body if isinstance(body, Mapping) else more]
        for name, body, more in span.events
        if name == names.CHOICE
    ]
    output = attributes.get(names.OUTPUT, attributes.get("gen_ai.completion"))
    return choices[0] if choices and output is None else output


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
    if isinstance(value, str) and _JSON_START.match(value):
        raise ContentMissing("it is cut off")
    return value


def _read_openinference(step: Step, attributes: Mapping[str, Any], span: Span) -> None:
    step.kind = kind_of(attributes[names.KIND])
    values = [partial(attributes.get, f"{key}.value") for key in ("input", "output")]
    if step.kind == "model":
        flat = [partial(_openinference_messages, attributes, key) for key in ("input", "output")]
        source, output = values if span.cut else flat
        offers = partial(unflattened, attributes, "llm.tools")
        read_parts(step, source, output, lambda: [item["tool"] for item in offers()])
    elif step.kind == "tool":
        step.name = str(attributes.get("tool.name", span.name))
        read_parts(step, *values)
        if step.name.startswith("handoff to "):
            step.kind, step.name = "handoff", step.name.removeprefix("handoff to ")
    elif step.kind == "agent":
        keys = (names.AGENT, "agent.name", "graph.node.id")
        step.name = str(next(filter(None, map(attributes.get, keys)), span.name))
        if node_metadata(attributes):  # Each node of a graph is called an agent.
            step.kind = "other"
    read_beginning(step, attributes.get("input.value"))


def _openinference_messages(attributes: Mapping[str, Any], key: str) -> Any:
    """Return messages, of which spans have a second copy; raise ContentMissing if they differ."""
    items = unflattened(attributes, f"llm.{key}_messages")
    copies = {*texts_in([value for name, value in attributes.items() if "_messages." not in name])}
    for text in filter(None, (message.content for message in messages_in(items))):
        if not copies >= ({*texts_in(text)} or {text}):
            raise ContentMissing(f"of its two copies only one has {short(text, 60)!r}")
    return items or None


def _of_server(step: Step, result: JsonValue) -> JsonValue:
    """Return the text of a result in MCP's form, and note that nothing names its server."""
    if not isinstance(result, Mapping) or {*result} != {"type", "text"} or step.server:
        return result
    step.missing.append("no span names its MCP server: declare it under `servers:`")
    return result["text"]


def _read_langfuse(step: Step, attributes: Mapping[str, Any], span: Span) -> None:
    step.kind = kind_of(attributes[names.OBSERVATION])
    step.status = f"{step.status} {attributes.get('langfuse.observation.status_message', '')}"
    step.failed = step.failed or attributes.get("langfuse.observation.level") == "ERROR"
    values = [attributes.get(f"langfuse.observation.{key}") for key in ("input", "output")]
    if step.kind == "agent" and node_metadata(attributes):
        step.kind = "other"
    source, tools = _without_offers(values[0]) if step.kind == "model" else (values[0], None)
    read_parts(step, lambda: source, lambda: values[1], lambda: tools)
    read_beginning(step, values[0])


def _without_offers(value: Any) -> tuple[Any, Any]:
    """Return messages, and the tools beside them; LangChain's stand between the messages."""
    value = loaded(value)
    if not isinstance(value, list):
        return value, mapping_or_empty(value).get("tools")
    tools = [item["content"] for item in value if _is_offer(item)]
    return [item for item in value if not _is_offer(item)], tools


def _is_offer(item: Any) -> bool:
    content = mapping_or_empty(mapping_or_empty(item).get("content"))
    return content.get("type") == "function" and item["role"] == "tool"

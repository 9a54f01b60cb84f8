"""Steps: the model calls, tool runs, agent runs and handoffs that spans of any exporter tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from simkit.capture.telemetry.exports import UNREADABLE
from simkit.capture.telemetry.messages import ContentMissing, loaded, messages_in
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
    call_id: str = ""
    server: str = ""
    """The MCP server of a tool."""
    text: str = ""
    """The user's message, where a step around all others has it."""
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


class Reading:
    """Notes the parts of a step that cannot be read."""

    def __init__(self, step: Step, subject: str) -> None:
        self._step, self._subject = step, subject

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> bool:
        if not isinstance(problem, (ContentMissing, *UNREADABLE)):
            return False
        why = f": {problem}" if isinstance(problem, ContentMissing) else ""
        self._step.missing.append(f"{self._subject} cannot be read{why}")
        return True


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


def user_text(value: Any) -> str:
    """Return the user's text in the input of an outermost step: a text, or a graph's messages."""
    value = loaded(value)
    if isinstance(value, Mapping):
        value = value.get("messages", value.get("input"))
    if isinstance(value, list) and value:
        try:
            value = messages_in(value)[-1].content
        except (ContentMissing, *UNREADABLE):
            return ""
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

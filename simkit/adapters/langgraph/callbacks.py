"""LangChain's callbacks: start and end of a node's code, tools, and models without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.filters import NAMES


class Hearer(Protocol):
    """A listener for nodes, by namespace, and tools, by call id."""

    def began_work(self, namespace: str, may_wait: bool) -> None:
        """Handle that a node's code is about to run."""

    def returned(self, namespace: str, value: Any) -> None:
        """Handle the end of a chain."""

    def wrote(self, namespace: str, node: str, input: Any, result: Any) -> None:
        """Handle the end of a node, with its input."""

    def narrowed(self, before: Any, after: Any, by: str) -> None:
        """Handle a filter that dropped messages."""

    def raised(self, namespace: str, problem: BaseException) -> None:
        """Handle the error of a chain."""

    def tool_began(self, call_id: str) -> None:
        """Handle the start of a tool."""

    def tool_ended(self, call_id: str, result: Any, problem: str) -> None:
        """Handle the end, or the failure, of a tool."""

    def model_began(self, identity: Any, namespace: str, messages: Sequence[BaseMessage]) -> None:
        """Handle a model call."""

    def model_answered(
        self,
        identity: Any,
        messages: Sequence[BaseMessage],
        reply: BaseMessage,
        tools: Sequence[str],
    ) -> None:
        """Handle a model's answer."""

    def model_failed(self, identity: Any) -> None:
        """Handle a model call without an answer."""


class Callbacks(BaseCallbackHandler):  # type: ignore[misc]
    """Passes LangChain's callbacks on to a listener."""

    run_inline = True
    """Called in the thread, and at the moment, of the event, in async code too."""
    raise_error = True
    """An exception, such as a reached limit, must end the run."""

    def __init__(self, hearer: Hearer) -> None:
        self._hearer = hearer
        self._nodes: dict[Any, tuple[str, str, Any]] = {}
        """LangChain's run to its node: namespace, name, and input."""
        self._filters: dict[Any, tuple[str, Any]] = {}
        """LangChain's run to its filter, and the filter's input."""
        self._tools: dict[Any, str] = {}
        self._requests: dict[Any, tuple[Sequence[BaseMessage], Sequence[str]]] = {}

    def on_chain_start(
        self,
        serialized: Any,
        inputs: Any,
        *,
        run_id: Any,
        metadata: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Handle the start of a node's code."""
        if metadata and name and metadata.get(compat.NODE) == name:
            namespace = metadata.get(compat.NAMESPACE, "")
            self._nodes[run_id] = namespace, name, inputs
            self._hearer.began_work(namespace, not _is_in_a_loop())
        elif name is not None and name in NAMES:
            self._filters[run_id] = name, inputs

    def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Handle the result of a node's code."""
        node = self._nodes.pop(run_id, None)
        if node is not None:
            self._hearer.wrote(*node, outputs)
            self._hearer.returned(node[0], outputs)
        elif run_id in self._filters:
            name, input = self._filters.pop(run_id)
            self._hearer.narrowed(input, outputs, name)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """Handle its exception."""
        node = self._nodes.pop(run_id, None)
        self._filters.pop(run_id, None)
        if node is not None:
            self._hearer.raised(node[0], error)

    def on_tool_start(
        self,
        serialized: Any,
        input_str: str,
        *,
        run_id: Any,
        tool_call_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Handle the start of a tool that a model called."""
        if tool_call_id:
            self._tools[run_id] = tool_call_id
            self._hearer.tool_began(tool_call_id)

    def on_tool_end(self, output: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Handle its result."""
        call_id = self._tools.pop(run_id, "")
        if call_id:
            self._hearer.tool_ended(call_id, output, "")

    def on_tool_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """Handle its exception; an interrupt, or a handoff, is no failure."""
        call_id = self._tools.pop(run_id, "")
        if call_id and not isinstance(error, GraphBubbleUp):
            self._hearer.tool_ended(call_id, None, str(error) or type(error).__name__)

    def on_chat_model_start(
        self, serialized: Any, messages: Any, *, run_id: Any, metadata: Any = None, **kwargs: Any
    ) -> None:
        """Record the messages to a model."""
        offers = (kwargs.get("invocation_params") or {}).get("tools") or ()
        self._requests[run_id] = messages[0], [_tool_name(offer) for offer in offers]
        self._hearer.model_began(run_id, (metadata or {}).get(compat.NAMESPACE, ""), messages[0])

    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Handle its response."""
        messages, tools = self._requests.pop(run_id, (None, ()))
        reply = getattr(response.generations[0][0], "message", None)
        if messages is not None and reply is not None:
            self._hearer.model_answered(run_id, messages, reply, tools)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """Handle a model call without a response."""
        self._requests.pop(run_id, None)
        self._hearer.model_failed(run_id)


def _tool_name(offer: Any) -> str:
    inner = offer.get("function", offer) if isinstance(offer, dict) else offer
    named = inner.get("name") if isinstance(inner, dict) else getattr(inner, "name", "")
    return str(named or "")


def _is_in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True

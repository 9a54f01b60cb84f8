"""LangChain's callbacks: start and end of a node's code, tools, and models without HTTP.

They are taken from the managers that call the handlers of a run. A handler among those of the
users would be visible to them, and LangChain does more for each run that has one.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.errors import GraphBubbleUp

from simkit.adapters.api import ContextListeners, Replacement, Row, Run, RunHalted
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.filters import NAMES

ModelCallStart: TypeAlias = tuple[Run, int] | None
"""The agent run of a model call, with the number of its calls before; None for no agent's call."""


class Hearer(Protocol):
    """A listener for nodes, by namespace, and tools, by call id."""

    def began_work(self, namespace: str) -> None:
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

    def is_turn_cut(self) -> bool:
        """Return whether the scenario has ended the turn before its reply."""

    def model_began(self, namespace: str, messages: Sequence[BaseMessage]) -> ModelCallStart:
        """Handle a model call."""

    def model_answered(
        self,
        messages: Sequence[BaseMessage],
        tools: Sequence[str],
        start: ModelCallStart,
        reply: BaseMessage,
    ) -> None:
        """Handle a model's answer."""


class Callbacks:
    """Passes LangChain's callbacks on to a listener.

    The facts of a run are stored in the run itself, because LangChain may copy it.
    """

    def __init__(self, hearer: Hearer) -> None:
        self._hearer = hearer

    def on_chain_start(
        self, run: Any, serialized: Any, inputs: Any, *, name: str | None = None, **options: Any
    ) -> None:
        """Handle the start of a node's code."""
        metadata = run.metadata
        if name and compat.NODE in metadata and metadata[compat.NODE] == name:
            namespace = metadata.get(compat.NAMESPACE, "")
            run.simkit_node = namespace, name, inputs
            self._hearer.began_work(namespace)
        elif name is not None and name in NAMES:
            run.simkit_filter = name, inputs

    def on_chain_end(self, run: Any, outputs: Any, **options: Any) -> None:
        """Handle the result of a node's code."""
        known = run.__dict__
        if "simkit_node" in known:
            namespace, name, input = run.simkit_node
            self._hearer.wrote(namespace, name, input, outputs)
            self._hearer.returned(namespace, outputs)
        elif "simkit_filter" in known:
            name, input = run.simkit_filter
            self._hearer.narrowed(input, outputs, name)

    def on_chain_error(self, run: Any, error: BaseException, **options: Any) -> None:
        """Handle its exception."""
        if "simkit_node" in run.__dict__:
            self._hearer.raised(run.simkit_node[0], error)

    def on_tool_start(
        self, run: Any, *args: Any, tool_call_id: str | None = None, **options: Any
    ) -> None:
        """Handle the start of a tool that a model called."""
        if tool_call_id:
            run.simkit_call = tool_call_id
            self._hearer.tool_began(tool_call_id)

    def on_tool_end(self, run: Any, output: Any, **options: Any) -> None:
        """Handle its result."""
        if "simkit_call" in run.__dict__:
            self._hearer.tool_ended(run.simkit_call, output, "")

    def on_tool_error(self, run: Any, error: BaseException, **options: Any) -> None:
        """Handle its exception; an interrupt, a handoff, or the end of the turn is no failure."""
        is_end = isinstance(error, RunHalted) or (
            isinstance(error, CancelledError) and self._hearer.is_turn_cut()
        )
        if "simkit_call" in run.__dict__ and not is_end and not isinstance(error, GraphBubbleUp):
            problem = str(error) or type(error).__name__
            self._hearer.tool_ended(run.simkit_call, None, problem)

    def on_chat_model_start(
        self,
        runs: Sequence[Any],
        serialized: Any,
        messages: Sequence[Sequence[BaseMessage]],
        *args: Any,
        invocation_params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """Record the messages to a model, which may be asked about several lists at once."""
        offers = None
        if invocation_params and "tools" in invocation_params:
            offers = invocation_params["tools"]
        tools = [_tool_name(offer) for offer in offers] if offers else ()
        for run, request in zip(runs, messages, strict=True):
            metadata = run.metadata
            namespace = metadata.get(compat.NAMESPACE, "")
            start = self._hearer.model_began(namespace, request)
            run.simkit_request = request, tools, start

    def on_llm_end(self, run: Any, response: Any, **options: Any) -> None:
        """Handle its response."""
        if "simkit_request" in run.__dict__:
            answer = response.generations[0][0].__dict__
            if "message" in answer:
                reply = answer["message"]
                messages, tools, start = run.simkit_request
                self._hearer.model_answered(messages, tools, start, reply)


class HasCallbacks(Protocol):
    """A listener for callbacks."""

    callbacks: Callbacks


_Listeners: TypeAlias = ContextListeners[Any]


def rows_for(listeners: _Listeners) -> list[Row]:
    """Return the replacements that call a listener after the handlers of a run."""
    starts = [(*slot, _called(listeners, slot[1], is_start=True)) for slot in compat.RUN_STARTS]
    ends = [(*slot, _called(listeners, slot[1], is_start=False)) for slot in compat.RUN_ENDS]
    return [*starts, *ends, *((*slot, _split) for slot in compat.splits_of_runs())]


def _called(
    listeners: _Listeners, name: str, *, is_start: bool
) -> Callable[[Replacement], Replacement]:
    """Return the wrapper of a method. That of a start returns the runs, an end is one of a run."""
    tell, use_now = getattr(Callbacks, name), listeners.use_now

    def wrapper(before: Replacement) -> Replacement:
        def method(self: Any, *args: Any, **options: Any) -> Any:
            result = before(self, *args, **options)
            # Each run of LangChain comes here twice: what is known needs no call of `current`.
            use = use_now()
            listener: HasCallbacks | None = (
                use.listener if use is not None and use.is_active else listeners.current()
            )
            if listener is not None and _OF_TRACERS not in self.__dict__:
                tell(listener.callbacks, result if is_start else self, *args, **options)
            return result

        async def awaited(self: Any, *args: Any, **options: Any) -> Any:
            result = await before(self, *args, **options)
            listener: HasCallbacks | None = listeners.current()
            if listener is not None and _OF_TRACERS not in self.__dict__:
                tell(listener.callbacks, result if is_start else self, *args, **options)
            return result

        return awaited if inspect.iscoroutinefunction(before) else method

    return wrapper


_OF_TRACERS: Final = "simkit_of_tracers"
"""The attribute of managers whose events others report too."""


def _split(before: Replacement) -> Replacement:
    """Wrap what gives tracers another payload: they get the event from a manager of their own."""

    def split_handlers(manager: Any) -> Any:
        real, tracers = before(manager)
        setattr(tracers, _OF_TRACERS, True)
        return real, tracers

    return split_handlers


def _tool_name(offer: Any) -> str:
    inner = offer.get("function", offer) if isinstance(offer, dict) else offer
    named = inner.get("name") if isinstance(inner, dict) else getattr(inner, "name", "")
    return str(named or "")

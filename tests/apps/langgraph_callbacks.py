"""Graphs with callbacks of their own, and nodes of which tracers are shown nothing."""

from __future__ import annotations

from typing import Any, TypedDict

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

try:
    from langgraph.types import TracePolicy as TracePolicy
except ImportError:  # Older versions have none.
    TracePolicy = None


class State(TypedDict, total=False):
    text: str
    handlers: list[str]
    events: list[str]


class Own(BaseCallbackHandler):  # type: ignore[misc]
    """Notes which chains and models began."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.events.append(kwargs["name"])

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.events.append("model")


own = Own()


def first(state: State, config: RunnableConfig) -> Command[Any]:
    """Say which handlers it can see, and pass control."""
    handlers = getattr(config["callbacks"], "handlers", ())
    names = [type(handler).__name__ for handler in handlers]
    return Command(update={"handlers": names}, goto="second")


def second(state: State) -> dict[str, Any]:
    """Ask a model that uses no wire."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Done.")]))
    return {"text": str(model.invoke("Well?").content), "events": [*own.events]}


def second_alone(state: State) -> dict[str, Any]:
    """Ask such a model without the callbacks of the graph."""
    model = GenericFakeChatModel(messages=iter([AIMessage("Done.")]))
    return {"text": str(model.invoke("Well?", {"callbacks": []}).content)}


def _graph(second: Any = second, **options: Any) -> Any:
    # Its types cannot say that a node is any function of the state.
    graph: Any = StateGraph(State)
    graph.add_node("first", first, destinations=("second",), **options)
    graph.add_node("second", second, **options)
    graph.add_edge(START, "first")
    graph.add_edge("second", END)
    return graph.compile()


plain = _graph()
alone = _graph(second_alone)
observed = _graph().with_config(callbacks=[own])
unrecorded = (
    _graph(trace_policy=TracePolicy(process_inputs=lambda _: {}, process_outputs=lambda _: {}))
    if TracePolicy is not None
    else None
)

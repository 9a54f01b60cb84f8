"""Graphs whose nodes note what they were given: what is shown of them must be the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.types import Command, Overwrite, Send, interrupt
from pydantic import BaseModel

notes: list[tuple[str, Any, Any]] = []
"""Who worked, what it was given, and what it returned."""


def data(value: Any) -> Any:
    """A value as plain data."""
    if isinstance(value, BaseMessage):
        return [value.type, value.content]
    if isinstance(value, BaseModel):
        return {name: data(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value):
        return {item.name: data(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {key: data(inner) for key, inner in value.items()}
    return [data(item) for item in value] if isinstance(value, (list, tuple, set)) else value


def noted(function: Callable[..., Any], name: str = "") -> Any:
    """A node that notes what it is given and returns."""
    import inspect

    kind = next(iter(inspect.get_annotations(function, eval_str=True).values()), Any)

    def node(state: Any) -> Any:
        given = data(state)
        result = function(state)
        notes.append((name or function.__name__, given, data(result)))
        return result

    node.__name__ = name or function.__name__
    node.__annotations__ = {"state": kind}
    return node


class named:
    """A graph, or a node that is noted already, under a name."""

    def __init__(self, name: str, does: Any) -> None:
        self.__name__, self.does = name, does


def build(schema: Any, *nodes: Any, memory: bool = True, **options: Any) -> Any:
    graph, before = StateGraph(schema, **options), START
    for node in nodes:
        does = node.does if isinstance(node, named) else noted(node)
        graph.add_node(node.__name__, does)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    return graph.compile(checkpointer=InMemorySaver() if memory else None)


def highest(before: int, now: int) -> int:
    return max(before, now)


class Desk(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]
    best: Annotated[int, highest]
    note: str
    found: list[str]


def opens(state: Desk) -> dict[str, Any]:
    return {"log": ["opens"], "count": 1, "best": 3, "note": "outer"}


def closes(state: Desk) -> dict[str, Any]:
    return {"log": ["closes"], "count": 1, "best": 2}


# A graph inside, with keys that it shares and keys of its own


class Inside(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str
    own: Annotated[list[int], operator.add]


def digs(state: Inside) -> dict[str, Any]:
    return {"note": "inner", "own": [1]}


def deeper(state: Inside) -> dict[str, Any]:
    return {"own": [2], "log": ["deeper"]}


class Out(TypedDict):
    note: str


inside = StateGraph(Inside, output_schema=Out)
inside.add_sequence([("digs", noted(digs)), ("deeper", noted(deeper))])
inside.add_edge(START, "digs")
held_inside = inside.compile()
nested = build(Desk, opens, named("holds", held_inside), closes)
without_memory = build(Desk, opens, named("holds", held_inside), closes, memory=False)

# A graph that code calls, with another schema


class Other(TypedDict, total=False):
    question: str
    note: str
    log: list[str]


def asks(state: Other) -> dict[str, Any]:
    return {"note": f"about {state['question']}", "log": ["theirs"]}


def answers(state: Other) -> dict[str, Any]:
    return {"note": state["note"] + "!"}


others = StateGraph(Other)
others.add_sequence([("asks", noted(asks)), ("answers", noted(answers))])
others.add_edge(START, "asks")
called = others.compile()


def calls(state: Desk) -> dict[str, Any]:
    once = called.invoke({"question": "cats"})
    twice = called.invoke({"question": once["note"]})
    return {"note": twice["note"], "log": ["calls"]}


calling = build(Desk, opens, calls, closes)

# What `Send` passes on


class Item(TypedDict, total=False):
    item: str
    log: Annotated[list[str], operator.add]


def plans(state: Desk) -> dict[str, Any]:
    return {"log": ["plans"], "found": ["a", "b"]}


def works(state: Item) -> dict[str, Any]:
    return {"log": [state["item"]]}


def spread(state: Desk) -> list[Send]:
    return [Send("works", {"item": item}) for item in state["found"]]


def digs_for(state: Item) -> dict[str, Any]:
    return {"log": ["digs " + state["item"]]}


sent_messages = StateGraph(Desk)
sent_messages.add_node("plans", noted(plans))
sent_messages.add_node("works", noted(works))
sent_messages.add_node("closes", noted(closes))
sent_messages.add_edge(START, "plans")
sent_messages.add_conditional_edges("plans", spread, ["works"])
sent_messages.add_edge("works", "closes")
sending = sent_messages.compile(checkpointer=InMemorySaver())

digger = StateGraph(Item, output_schema=Item)
digger.add_node("digs_for", noted(digs_for))
digger.add_edge(START, "digs_for")
far = StateGraph(Desk)
far.add_node("plans", noted(plans))
far.add_node("works", digger.compile())
far.add_node("closes", noted(closes))
far.add_edge(START, "plans")
far.add_conditional_edges("plans", spread, ["works"])
far.add_edge("works", "closes")
sending_far = far.compile()


def passes_text(state: Desk) -> Command[Any]:
    return Command(goto=[Send("reads", "left"), Send("reads", ["right"])], update={"note": "n"})


def reads(state: Any) -> dict[str, Any]:
    return {"log": [str(state)]}


texts = StateGraph(Desk)
texts.add_node("passes_text", noted(passes_text), destinations=("reads",))
texts.add_node("reads", noted(reads))
texts.add_edge(START, "passes_text")
sending_texts = texts.compile()

# Managed values, private channels, channels that do not last


class Managed(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    is_last_step: IsLastStep
    remaining_steps: RemainingSteps


def says(state: Managed) -> dict[str, Any]:
    return {"messages": [AIMessage("One.")]}


def says_more(state: Managed) -> dict[str, Any]:
    return {"messages": [AIMessage("Two.")]}


managed = build(Managed, says, says_more)


class Private(TypedDict, total=False):
    secret: str


def hides(state: Desk) -> dict[str, Any]:
    return {"secret": "s", "log": ["hides"]}


def looks(state: Private) -> dict[str, Any]:
    return {"note": state["secret"].upper()}


def looks_not(state: Desk) -> dict[str, Any]:
    return {"log": ["looks not"]}


private = build(Desk, hides, looks, looks_not)


class Fleeting(TypedDict, total=False):
    text: str
    flash: Annotated[str, EphemeralValue]
    scratch: Annotated[list[str], UntrackedValue]
    log: Annotated[list[str], operator.add]


def flashes(state: Fleeting) -> dict[str, Any]:
    return {"flash": "!", "scratch": ["x"]}


def after_flash(state: Fleeting) -> dict[str, Any]:
    return {"log": [state.get("flash", "")]}


def later(state: Fleeting) -> dict[str, Any]:
    return {"log": ["later"]}


fleeting = build(Fleeting, flashes, after_flash, later)

# Input and output of their own


class Given(TypedDict):
    text: str


narrow = build(Desk, opens, closes, input_schema=Given, output_schema=Out)

# States that are no dicts


class Modelled(BaseModel):
    text: str
    count: int = 7
    log: Annotated[list[str], operator.add] = []
    note: str = "none"


def models(state: Modelled) -> dict[str, Any]:
    return {"log": [state.text], "count": "8"}


def models_more(state: Modelled) -> dict[str, Any]:
    return {"note": str(state.count + 1)}


modelled = build(Modelled, models, models_more)


@dataclass
class Classed:
    text: str = ""
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    note: str = "none"


def classes(state: Classed) -> dict[str, Any]:
    return {"log": [state.text]}


def classes_more(state: Classed) -> dict[str, Any]:
    return {"note": state.log[0]}


classed = build(Classed, classes, classes_more)

# Reducers of other kinds


def joined(before: str, now: str) -> str:
    return f"{before}/{now}" if before else now


class Counter:
    """A reducer that is an object."""

    def __call__(self, before: int, now: int) -> int:
        return before + 2 * now


class Reduced(TypedDict, total=False):
    text: str
    product: Annotated[int, operator.mul]
    path: Annotated[str, joined]
    twice: Annotated[int, Counter()]
    words: Annotated[set[str], operator.or_]


def reduces(state: Reduced) -> dict[str, Any]:
    return {"product": 2, "path": "a", "twice": 1}


def reduces_more(state: Reduced) -> dict[str, Any]:
    return {"product": 3, "path": "b", "twice": 2}


reduced = build(Reduced, reduces, reduces_more)


def overwrites(state: Desk) -> dict[str, Any]:
    return {"log": Overwrite(["new"]), "count": Overwrite(0)}


overwriting = build(Desk, opens, overwrites, closes)


def forgets(state: MessagesState) -> dict[str, Any]:
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), AIMessage("Anew.")]}


def replies(state: MessagesState) -> dict[str, Any]:
    return {"messages": [AIMessage("Reply.")]}


forgetting = build(MessagesState, replies, forgets)

# A question inside


def wonders(state: Inside) -> dict[str, Any]:
    return {"note": str(interrupt("Well?")), "own": [3]}


wondering = StateGraph(Inside)
wondering.add_sequence([("digs", noted(digs)), ("wonders", noted(wonders))])
wondering.add_edge(START, "digs")
interrupted = build(Desk, opens, named("holds", wondering.compile()), closes)

# Beside each other, each with a graph inside


class Own(TypedDict):
    own: Annotated[list[int], operator.add]


class Both(Desk, total=False):
    own: Annotated[list[int], operator.add]


def beside_graph(is_careful: bool) -> Any:
    graph = StateGraph(Both)
    for name in ("left", "right"):
        schemas = (Item, Own) if is_careful else (Inside, Item)
        inner = StateGraph(Inside, input_schema=schemas[0], output_schema=schemas[1])
        inner.add_node(f"{name}_digs", noted(digs, f"{name}_digs"))
        inner.add_node(f"{name}_deeper", noted(deeper, f"{name}_deeper"))
        inner.add_edge(START, f"{name}_digs")
        inner.add_edge(f"{name}_digs", f"{name}_deeper")
        graph.add_node(name, inner.compile())
        graph.add_edge(START, name)
    graph.add_node("closes", noted(closes))
    graph.add_edge(["left", "right"], "closes")
    return graph.compile(checkpointer=InMemorySaver())


parallel = beside_graph(True)
doubling = beside_graph(False)
"""Its inner graphs write back what they were given."""

# Functions


@task
def tasked(text: str) -> dict[str, Any]:
    return called.invoke({"question": text})


@entrypoint(checkpointer=InMemorySaver())
def functional(text: str) -> str:
    return str(tasked(text).result()["note"])


def wrapped(text: str) -> str:
    """Code that calls two graphs, one after the other, with channels of the same names."""
    first = without_memory.invoke({"text": text, "log": ["w"]})
    second = without_memory.invoke({"text": "again"})
    return f"{first['log']} {second['log']}"


def first_message(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}

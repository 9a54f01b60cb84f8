"""Small graphs, one for each thing that graphs can do; their model calls go over the wire."""

from __future__ import annotations

import asyncio
import operator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, RetryPolicy, Send, interrupt
from openai import AsyncOpenAI, OpenAI

client, async_client = OpenAI(), AsyncOpenAI()


def _messages(text: list[Any]) -> list[dict[str, Any]]:
    roles = {"human": "user", "ai": "assistant"}
    return [{"role": roles[item.type], "content": item.content} for item in text]


def say(system: str, text: list[Any]) -> str:
    response = client.chat.completions.create(
        model="m", messages=[{"role": "system", "content": system}, *_messages(text)]
    )
    return response.choices[0].message.content or ""


@tool
async def wait_long() -> str:
    """Wait for a minute."""
    await asyncio.sleep(60)
    return "over"


@tool
async def fail_soon() -> str:
    """Fail after a second."""
    await asyncio.sleep(1)
    raise LookupError("nothing there")


_waiter = create_agent(ChatOpenAI(model="m", api_key="k"), [wait_long, fail_soon], name="clerk")


async def impatient(text: str) -> str:
    """Gives up when one of the tools fails, which cancels the other."""
    try:
        await _waiter.ainvoke({"messages": [("user", text)]})
    except LookupError:
        return "given up"
    return "done"


def node(name: str) -> Any:
    def work(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(say(f"You are {name}.", state["messages"]))]}

    return work


def async_node(name: str) -> Any:
    async def work(state: MessagesState) -> dict[str, Any]:
        response = await async_client.chat.completions.create(
            model="m",
            messages=[
                {"role": "system", "content": f"You are {name}."}, *_messages(state["messages"])
            ],
        )  # fmt: skip
        return {"messages": [AIMessage(response.choices[0].message.content)]}

    return work


def line(make: Any = node, schema: Any = MessagesState, **nodes: Any) -> StateGraph:
    """A graph whose nodes follow each other."""
    graph = StateGraph(schema)
    before = START
    for name, function in (nodes or {"first": make("first"), "second": make("second")}).items():
        graph.add_node(name, function)
        graph.add_edge(before, name)
        before = name
    return graph


def parallel_graph(schema: Any, **nodes: Any) -> StateGraph:
    """A graph whose nodes run in parallel."""
    graph = StateGraph(schema)
    for name, function in nodes.items():
        graph.add_node(name, function)
        graph.add_edge(START, name)
    return graph


builder = line()
compiled = line().compile()
remembering = line().compile(checkpointer=InMemorySaver())
asynchronous = line(async_node).compile()


def factory() -> Any:
    return line().compile()


async def async_factory() -> Any:
    return line().compile()


def configured(config: dict[str, Any]) -> Any:
    return line().compile() if config["configurable"]["size"] == 2 else None


# Code that calls a graph itself


def wrapped(text: str) -> str:
    state = compiled.invoke({"messages": [HumanMessage(text)]})
    return str(state["messages"][-1].content)


def wrapped_state(text: str) -> Any:
    return compiled.invoke({"messages": [HumanMessage(text)]})


def wrapped_stream_v2(text: str) -> str:
    parts = list(
        compiled.stream(
            {"messages": [HumanMessage(text)]}, stream_mode=["updates", "custom"], version="v2"
        )
    )
    assert [part["type"] for part in parts] == ["updates", "updates"]
    return str(parts[-1]["data"]["second"]["messages"][-1].content)


def wrapped_messages(text: str) -> str:
    chunks = list(compiled.stream({"messages": [HumanMessage(text)]}, stream_mode="messages"))
    assert len(chunks) == 2
    return str(chunks[-1][0].content)


async def wrapped_async(text: str) -> str:
    updates = [
        item
        async for item in asynchronous.astream(
            {"messages": [HumanMessage(text)]}, stream_mode="updates"
        )
    ]
    assert [list(update) for update in updates] == [["first"], ["second"]]
    return str(updates[-1]["second"]["messages"][-1].content)


def undeterred(text: str) -> str:
    for _ in range(3):
        try:
            compiled.invoke({"messages": [HumanMessage(text)]})
        except Exception:
            continue
    return "I went on."


async def undeterred_async(text: str) -> str:
    for _ in range(3):
        try:
            await asynchronous.ainvoke({"messages": [HumanMessage(text)]})
        except Exception:
            continue
    return "I went on."


class Cats(TypedDict, total=False):
    text: str
    purrs: Annotated[list[str], operator.add]


class Dogs(TypedDict, total=False):
    text: str
    barks: Annotated[int, operator.add]


async def count_purrs(state: Cats) -> dict[str, Any]:
    text = await async_node("count_purrs")({"messages": [HumanMessage(state["text"])]})
    return {"purrs": [text["messages"][0].content]}


async def count_barks(state: Dogs) -> dict[str, Any]:
    text = await async_node("count_barks")({"messages": [HumanMessage(state["text"])]})
    return {"barks": len(text["messages"][0].content)}


cats = line(schema=Cats, count_purrs=count_purrs).compile()
dogs = line(schema=Dogs, count_barks=count_barks).compile()


async def side_by_side(text: str) -> str:
    item, other = await asyncio.gather(
        cats.ainvoke({"text": "a cat", "purrs": ["Prr."]}), dogs.ainvoke({"text": "a dog"})
    )
    return f"{item} {other}"


async def same_side_by_side(text: str) -> str:
    item, other = await asyncio.gather(
        cats.ainvoke({"text": "a cat"}), cats.ainvoke({"text": "a lion", "purrs": ["Rrr."]})
    )
    return f"{item['purrs']} {other['purrs']}"


# The Functional API


@task
def note(topic: str) -> str:
    return say("You note.", [HumanMessage(topic)])


@entrypoint()
def workflow(text: str) -> str:
    notes = [note(topic) for topic in text.split(" and ")]
    return "; ".join(item.result() for item in notes)


# State


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **{key: value.upper() for key, value in new.items()}}


class Counters(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]
    seen: Annotated[dict[str, int], operator.or_]
    loud: Annotated[dict[str, str], merged]
    last: str


def counting(name: str) -> Any:
    def work(state: Counters) -> dict[str, Any]:
        return {"log": [name], "count": 2, "seen": {name: 1}, "loud": {name: name}}

    return work


counters = parallel_graph(Counters, a=counting("a"), b=counting("b")).compile()


def trim(state: MessagesState) -> dict[str, Any]:
    return {"messages": [RemoveMessage(message.id) for message in state["messages"][:-1]]}


trimming = line(first=node("first"), trim=trim).compile(checkpointer=InMemorySaver())


class Two(TypedDict, total=False):
    question: str
    language: str
    answer: str


def answer(state: Two) -> dict[str, Any]:
    return {"answer": f"{state['question']} in {state.get('language', 'English')}"}


two_texts = line(schema=Two, answer=answer).compile()


def in_german(text: str) -> dict[str, Any]:
    return {"question": text, "language": "German"}


class OneAnswer(TypedDict):
    question: str
    answer: str


class Given(TypedDict):
    question: str


one_text = StateGraph(OneAnswer, input_schema=Given)
one_text.add_node("answer", answer)
one_text.add_edge(START, "answer")


# Handoffs


def triage(state: MessagesState) -> Command[Any]:
    topic = say("You route.", state["messages"])
    return Command(goto="desk", update={"messages": [], "topic": topic})


class Routed(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    topic: str


routed = StateGraph(Routed)
routed.add_node("triage", triage, destinations=("desk",))
routed.add_node("desk", node("desk"))
routed.add_edge(START, "triage")


def escalate(state: Routed) -> Command[Any]:
    say("You answer.", state["messages"])
    return Command(graph=Command.PARENT, goto="boss", update={"topic": "anger"})


front = StateGraph(Routed)
front.add_node("clerk", escalate)
front.add_edge(START, "clerk")
escalating = StateGraph(Routed)
escalating.add_node("front", front.compile())
escalating.add_node("boss", node("boss"))
escalating.add_edge(START, "front")

# Whose calls they are

helper = line(helper=node("helper")).compile()


def calls_twice(state: MessagesState) -> dict[str, Any]:
    once = helper.invoke({"messages": state["messages"]})
    twice = helper.invoke({"messages": once["messages"]})
    message = AIMessage(say("You end.", twice["messages"]))
    return {"messages": [*twice["messages"][-2:], message]}


def in_threads(state: MessagesState) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as pool:
        result = list(pool.map(lambda name: say(f"You are {name}.", state["messages"]), "ab"))
    return {"messages": [AIMessage(" ".join(result))]}


twice_inside = line(caller=calls_twice).compile()
threaded = line(worker=in_threads).compile()

# Interrupts


def asking(question: str) -> Any:
    def ask(state: Counters) -> dict[str, Any]:
        return {"log": [f"{question}: {interrupt(question)}"]}

    return ask


one_question = line(schema=Counters, ask=asking("Name?"), a=counting("a")).compile(
    checkpointer=InMemorySaver()
)
two_questions = parallel_graph(Counters, ask_name=asking("Name?"), ask_age=asking("Age?")).compile(
    checkpointer=InMemorySaver()
)

# Failures


class Sometimes:
    """Fails the first time."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, state: Counters) -> dict[str, Any]:
        self.calls += 1
        if self.calls % 2:
            raise ConnectionError("not now")
        return {"log": ["at last"]}


def failing(state: Counters) -> dict[str, Any]:
    raise ValueError(f"no {state['text']} here")


retried = StateGraph(Counters)
at_once = RetryPolicy(initial_interval=0.01, jitter=False)
retried.add_node("flaky", Sometimes(), retry_policy=at_once)
retried.add_edge(START, "flaky")
both_fail = parallel_graph(Counters, one=failing, other=failing, fine=counting("fine")).compile()
clashing = parallel_graph(
    Counters, one=lambda state: {"last": "1"}, other=lambda state: {"last": "2"}
).compile()


class Flaky:
    """Fails the first time of two."""

    calls = 0


@tool
def look_outside(city: str) -> str:
    """Looks out of the window."""
    Flaky.calls += 1
    if Flaky.calls % 2:
        raise ConnectionError("a curtain")
    return f"rain in {city}"


patient = create_agent(
    ChatOpenAI(model="gpt-5-mini", api_key="none"), [look_outside], name="clerk",
    middleware=[ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)],
)  # fmt: skip

# Tools, stores and models that no wire shows


@tool
def weather(city: str) -> str:
    """Tells the weather."""
    raise ConnectionError("the weather is not reachable from here")


@tool
async def later(city: str) -> dict[str, str]:
    """Tells tomorrow's weather."""
    return {"city": city, "sky": "clear"}


def fake_model(*replies: AIMessage) -> Any:
    return lambda state: {
        "messages": [GenericFakeChatModel(messages=iter(replies)).invoke(state["messages"])]
    }


def call(name: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": {"city": "Bern"}, "id": "x1"}])


stubbed = line(
    ask=fake_model(call("weather")), tools=ToolNode([weather]), tell=fake_model(AIMessage("Grey."))
).compile()
async_tool = line(
    ask=fake_model(call("later")), tools=ToolNode([later]), tell=fake_model(AIMessage("Clear."))
).compile()
store = InMemoryStore()


def remember(state: MessagesState, *, store: BaseStore) -> dict[str, Any]:
    known = store.get(("users", "ada"), "name")
    store.put(("users", "ada"), "name", {"text": state["messages"][-1].content})
    return {"messages": [AIMessage(known.value["text"] if known else "Nice to meet you.")]}


storing = line(remember=remember).compile(store=store)

# A graph inside a graph, and one that a node calls


inner = line(critic=node("critic")).compile()
outer = line(review=inner, end=node("end")).compile()


def calls_a_graph(state: MessagesState) -> dict[str, Any]:
    own: Any = {"configurable": {"thread_id": "own"}}
    result = remembering.invoke({"messages": state["messages"]}, own)
    return {"messages": [result["messages"][-1]]}


calling = line(caller=calls_a_graph).compile()


async def subgraphs_streamed(text: str) -> str:
    state: dict[str, Any] = {}
    given, modes = {"messages": [HumanMessage(text)]}, ["values", "updates"]
    async for space, mode, chunk in outer.astream(given, stream_mode=modes, subgraphs=True):
        if mode == "values" and not space:
            state = chunk
    return str(state["messages"][-1].content)


@dataclass
class Verdict:
    """What a graph comes to, as a value of the application's own."""

    grade: str


class Graded(TypedDict, total=False):
    text: str
    verdict: Verdict


def grade(state: Graded) -> dict[str, Any]:
    return {"verdict": Verdict("good")}


graded = line(schema=Graded, grade=grade).compile()


def spread(state: Counters) -> Command[Any]:
    return Command(goto=[Send("piece", {"text": text}) for text in ("left", "right")])


def piece(state: Counters) -> dict[str, Any]:
    return {"log": [state["text"]]}


spreading = StateGraph(Counters)
spreading.add_node("spread", spread, destinations=("piece",)).add_node("piece", piece)
spreading.add_edge(START, "spread")


class Questioned(TypedDict):
    question: str


class Answered(TypedDict):
    answer: str


class Desk(Questioned, Answered):
    messages: Annotated[list[Any], add_messages]
    loud: Annotated[dict[str, str], merged]


def reply(state: Desk) -> dict[str, Any]:
    messages = [HumanMessage(state["question"], id="asked"), AIMessage("Yes.", id="said")]
    return {"messages": messages, "loud": {"a": "b"}, "answer": "Yes."}


def forget(state: Desk) -> dict[str, Any]:
    return {"messages": [RemoveMessage("asked")], "loud": {"c": "d"}}


narrow = StateGraph(Desk, input_schema=Questioned, output_schema=Answered)
narrow.add_node("reply", reply).add_node("forget", forget)
narrow.add_edge(START, "reply").add_edge("reply", "forget")
narrowed = narrow.compile(checkpointer=InMemorySaver())


def report(state: MessagesState) -> dict[str, Any]:
    done = HumanMessage("The pump is fixed.", name="plumber")
    return {"messages": [AIMessage("{}"), done]}


reporting = StateGraph(MessagesState)
reporting.add_node("report", report)
reporting.add_edge(START, "report")

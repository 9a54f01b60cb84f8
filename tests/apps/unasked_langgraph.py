"""Faults of public reports on LangGraph, each as the smallest graph that has it, and its mend."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, before_model, dynamic_prompt
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import RemoveMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from langgraph_supervisor import create_supervisor
from langgraph_swarm import SwarmState, create_handoff_tool, create_swarm

model = ChatOpenAI(model="gpt-5-mini")


# langgraph#6436, langgraph-bigtool#19: a tool names the next node, and an edge leads back as well.


@tool
def transfer_to_executor(task: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Hand the job to the executor."""
    return Command(
        goto="executor", update={"messages": [ToolMessage(task, tool_call_id=tool_call_id)]}
    )


def planner(state: Any) -> Any:
    bound = model.bind_tools([transfer_to_executor])
    return {"messages": [bound.invoke([("system", "You plan."), *state["messages"]])]}


def executor(state: Any) -> Any:
    return {"messages": [model.invoke([("system", "You execute."), *state["messages"]])]}


def after_planner(state: Any) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


def planned(*, leads_back: bool) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("planner", planner)
    graph.add_node("executor", executor)
    graph.add_node("tools", ToolNode([transfer_to_executor]))
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", after_planner, ["tools", END])
    graph.add_edge("executor", END)
    if leads_back:
        graph.add_edge("tools", "planner")
    return graph.compile()


both = planned(leads_back=True)
either = planned(leads_back=False)


# langgraph-swarm#29: a swarm inside a graph whose state does not know the active agent.


alice = create_agent(
    model, [create_handoff_tool(agent_name="bob")], name="alice", system_prompt="Alice."
)
bob = create_agent(
    model, [create_handoff_tool(agent_name="alice")], name="bob", system_prompt="Bob."
)
swarm = create_swarm([alice, bob], default_active_agent="alice")


def shout(state: Any) -> Any:
    return {}


def around_swarm(schema: Any) -> Any:
    graph = StateGraph(schema)
    graph.add_node("swarm", swarm.compile())
    graph.add_node(shout)
    graph.add_edge(START, "swarm")
    graph.add_edge("swarm", "shout")
    return graph.compile(checkpointer=InMemorySaver())


forgetful = around_swarm(MessagesState)
mindful = around_swarm(SwarmState)


# openhuman#5806: two agents make the same look-up, for neither is told what the other found.


@tool
def list_prs(repo: str) -> str:
    """List."""
    return "1, 2, 3"


def asked_as_tool(name: str) -> BaseTool:
    agent = create_agent(model, [list_prs], name=name, system_prompt=f"You are {name}.")

    def ask(task: str) -> str:
        """Ask."""
        answer: str = agent.invoke({"messages": [("user", task)]})["messages"][-1].content
        return answer

    return tool("ask_" + name)(ask)


lead = create_agent(
    model, [asked_as_tool("x"), asked_as_tool("y")], name="lead", system_prompt="You lead."
)


# langgraph-supervisor#160: what the user gets is the supervisor's empty last word.


data = create_agent(model, [], name="data", system_prompt="You answer from the data.")
boss = create_supervisor(
    [data], model=model, prompt="You route.", supervisor_name="boss", output_mode="last_message"
).compile()


# PostHog#31629: a subgraph returns its whole list, and the outer reducer appends it.


class Chat(TypedDict):
    messages: Annotated[list[Any], operator.add]


def talk(state: Any) -> Any:
    return {"messages": [model.invoke([("system", "You talk."), *state["messages"]])]}


def sum_up(state: Any) -> Any:
    return {"messages": [model.invoke([("system", "You sum up."), *state["messages"]])]}


def nested(*, is_plain: bool) -> Any:
    inner = StateGraph(Chat).add_node(talk).add_edge(START, "talk").compile()
    graph = StateGraph(Chat)
    graph.add_node("inner", talk if is_plain else inner)
    graph.add_node("sum_up", sum_up)
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "sum_up")
    return graph.compile()


doubled = nested(is_plain=False)
plain = nested(is_plain=True)


# deepagents#270, langchain#38352: a middleware trims between calls and their results.


@tool
def read(name: str) -> str:
    """Read a file."""
    return f"content of {name}"


def trimmed(most: int) -> Any:
    @before_model
    def keep_last(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > most:
            return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *state["messages"][-most:]]}
        return None

    return create_agent(model, [read], name="reader", system_prompt="Read.", middleware=[keep_last])


short = trimmed(3)
long = trimmed(9)


# deepagents#3542: what a middleware keeps to itself is copied into the state of another agent.


class Notes(AgentState):
    notes: NotRequired[Annotated[str, PrivateStateAttr]]


class Shared(AgentState):
    notes: NotRequired[str]


class NoteTaker(AgentMiddleware[Any, Any]):
    state_schema = Notes

    def before_agent(self, state: Any, runtime: Any) -> Any:
        return {"notes": "The customer has an unpaid bill."}


@dynamic_prompt
def with_notes(request: Any) -> str:
    return f"You search. {request.state.get('notes', '')}"


searcher = create_agent(model, [], name="searcher", state_schema=Shared, middleware=[with_notes])


def keeper(*, is_private: bool) -> Any:
    def search(task: str, state: Annotated[Any, InjectedState]) -> str:
        """Search."""
        left_out = ("messages", "notes") if is_private else ("messages",)
        given = {key: value for key, value in state.items() if key not in left_out}
        answer: str = searcher.invoke({**given, "messages": [("user", task)]})["messages"][
            -1
        ].content
        return answer

    return create_agent(
        model, [tool(search)], name="keeper", system_prompt="You keep.", middleware=[NoteTaker()]
    )


leaking = keeper(is_private=False)
keeping = keeper(is_private=True)


# agent-framework#8503: a person rejects a call, the model is not told, and asks for it again.


@tool
def remove(file: str) -> str:
    """Remove a file."""
    return f"removed {file}"


def watched(*, tells: bool) -> Any:
    def clerk(state: Any) -> Any:
        bound = model.bind_tools([remove])
        return {"messages": [bound.invoke([("system", "You tidy up."), *state["messages"]])]}

    def review(state: Any) -> Any:
        (call,) = state["messages"][-1].tool_calls
        action = {"name": call["name"], "args": call["args"]}
        allowed = [{"action_name": "remove", "allowed_decisions": ["approve", "reject"]}]
        answer = interrupt({"action_requests": [action], "review_configs": allowed})
        if answer["decisions"][0]["type"] == "approve":
            result = ToolMessage(remove.invoke(call["args"]), tool_call_id=call["id"])
            return Command(goto="clerk", update={"messages": [result]})
        if tells:
            result = ToolMessage("The user said no.", tool_call_id=call["id"])
            return Command(goto="clerk", update={"messages": [result]})
        undone = RemoveMessage(id=state["messages"][-1].id)
        return Command(goto="clerk", update={"messages": [undone]})

    graph = StateGraph(MessagesState).add_node(clerk).add_node("review", review)
    graph.add_edge(START, "clerk")
    graph.add_conditional_edges(
        "clerk", lambda state: "review" if state["messages"][-1].tool_calls else END
    )
    return graph.compile(checkpointer=InMemorySaver())


untold = watched(tells=False)
informed = watched(tells=True)


# An application of our own: the clerk's prompt names another channel than the one that is written.


class Order(TypedDict, total=False):
    messages: Annotated[list[Any], operator.add]
    limit: str
    budget: str


def order_desk(*, reads: str) -> Any:
    def reader(state: Any) -> Any:
        answer = model.invoke([("system", "You read."), *state["messages"]])
        return {"limit": answer.content}

    def clerk(state: Any) -> Any:
        prompt = f"You order. Limit: {state.get(reads, 'none')}"
        return {"messages": [model.invoke([("system", prompt), *state["messages"]])]}

    graph = StateGraph(Order).add_node(reader).add_node(clerk)
    graph.add_edge(START, "reader").add_edge("reader", "clerk")
    return graph.compile()


misread = order_desk(reads="budget")
wellread = order_desk(reads="limit")


# deer-flow#532: the work on a second topic begins with what the work on the first has left.


class Topic(TypedDict):
    topic: str


class Report(Topic, total=False):
    findings: str
    report: str


def research(*, begins_anew: bool) -> Any:
    def find(state: Any) -> Any:
        before = "" if begins_anew else state.get("findings", "")
        answer = model.invoke(
            [("system", f"You research. Known: {before}"), ("user", state["topic"])]
        )
        return {"findings": answer.content}

    def write(state: Any) -> Any:
        answer = model.invoke([("system", "You write."), ("user", state["findings"])])
        return {"report": answer.content}

    graph = StateGraph(Report, input_schema=Topic).add_node(find).add_node(write)
    graph.add_edge(START, "find").add_edge("find", "write").add_edge("write", END)
    return graph.compile(checkpointer=InMemorySaver())


left_over = research(begins_anew=False)
cleared = research(begins_anew=True)


# langgraph4j#477: an earlier answer, which nothing clears, ends the loop of a later turn.


class Answered(MessagesState):
    answer: str


@tool
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} is late"


def answering(*, clears: bool) -> Any:
    def clerk(state: Answered) -> Any:
        a = model.bind_tools([look]).invoke([("system", "You help."), *state["messages"]])
        answer = {} if a.tool_calls and not clears else {"answer": "" if a.tool_calls else a.text}
        return {"messages": [a], **answer}

    graph = StateGraph(Answered).add_node(clerk).add_node("tools", ToolNode([look]))
    graph.add_edge(START, "clerk")
    graph.add_conditional_edges("clerk", after_planner, ["tools", END])
    graph.add_conditional_edges("tools", lambda state: END if state.get("answer") else "clerk")
    return graph.compile(checkpointer=InMemorySaver())


shadowed = answering(clears=False)
answered = answering(clears=True)


# An agent that reviews another's work reads the conversation from the other side.


def drafts(state: Any) -> Any:
    return {"messages": [model.invoke([("system", "You draft."), *state["messages"]])]}


def reviews(state: Any) -> Any:
    first, *others = state["messages"]
    sides = {"ai": "user", "human": "assistant"}
    swapped = [first, *((sides[each.type], each.text) for each in others)]
    answer = model.invoke([("system", "You review."), *swapped])
    return {"messages": [("user", answer.text)]}


reflecting = StateGraph(MessagesState).add_node(drafts).add_node(reviews)
reflecting.add_edge(START, "drafts").add_edge("drafts", "reviews").add_edge("reviews", END)
reflection = reflecting.compile(checkpointer=InMemorySaver())


# adk-python#4837: a step that answers from a cache does not write what its answer writes.


def cached(*, writes: bool) -> Any:
    cache: dict[str, str] = {}

    def analyst(state: Any) -> Any:
        topic = state["topic"]
        if topic in cache:
            return {"findings": cache[topic]} if writes else {}
        cache[topic] = model.invoke([("system", "You analyse."), ("user", topic)]).text
        return {"findings": cache[topic]}

    def writer(state: Any) -> Any:
        text = f"{state['topic']}\nAnalysis: {state['findings']}"
        return {"report": model.invoke([("system", "You write."), ("user", text)]).text}

    graph = StateGraph(Report, input_schema=Topic).add_node(analyst).add_node(writer)
    graph.add_edge(START, "analyst").add_edge("analyst", "writer").add_edge("writer", END)
    return graph.compile(checkpointer=InMemorySaver())


stale = cached(writes=False)
cleared_cache = cached(writes=True)

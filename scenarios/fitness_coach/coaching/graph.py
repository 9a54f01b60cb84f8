"""The router and the coaches; each says with a Command who goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from coaching.conversation import compact, conversation, current, history
from coaching.models import chat_model
from coaching.state import GraphState

DECISION: dict[str, Any] = {
    "title": "RouterDecision",
    "type": "object",
    "required": ["primary_agent", "complexity"],
    "properties": {
        "primary_agent": {
            "anyOf": [
                {"enum": ["nutrition", "workout_coach", "workout_analyst"]},
                {"type": "array", "items": {"type": "string"}},
            ]
        },
        "complexity": {"enum": ["simple", "complex"]},
        "time_ranges": {"type": "array", "items": {"type": "object"}},
        "secondary_topics": {"type": "array", "items": {"type": "string"}},
    },
}
NODES = {
    "nutrition": "nutrition_execution",
    "workout_coach": "workout_coach_execution",
    "workout_analyst": "workout_analyst_execution",
}

llm = chat_model()


@tool
def log_meal(food: str) -> dict[str, Any]:
    """Logs a meal."""
    raise ConnectionError("the meal store is not connected")


@tool
def lookup_food(food: str) -> dict[str, Any]:
    """Looks a food up."""
    raise ConnectionError("the food table is not connected")


@tool
def log_workout(miles: float) -> dict[str, Any]:
    """Logs a workout."""
    raise ConnectionError("the workout store is not connected")


class WorkoutData(BaseModel):
    """What the analyst is given."""

    distance_km: float


@tool
def transfer_to_workout_analyst(type: Literal["analysis_delegation"], payload: WorkoutData) -> str:
    """Lets the workout analyst answer, who is given the workout."""
    raise NotImplementedError("the coach's node carries it out")


TOOLS: dict[str, list[BaseTool]] = {
    "nutrition": [log_meal, lookup_food],
    "workout_coach": [log_workout, transfer_to_workout_analyst],
    "workout_analyst": [],
}
PROMPTS = {
    "nutrition": "You are a nutrition coach.",
    "workout_coach": "You are a workout coach.",
    "workout_analyst": "You analyse workouts.",
}


def usage_of(messages: Sequence[AnyMessage]) -> dict[str, int]:
    """Adds up what the model's answers have cost."""
    used = [one.usage_metadata for one in messages if isinstance(one, AIMessage)]
    return {
        name: sum(one[name] for one in used if one is not None)
        for name in ("input_tokens", "output_tokens")
    }


def router(state: GraphState) -> Command[str]:
    """Chooses who answers, one coach or several, one after the other."""
    prompt: list[AnyMessage] = [SystemMessage("Choose the coach.")]
    if state.get("history_items"):
        prompt.append(SystemMessage(compact(state["history_items"])))
    model = llm.with_structured_output(DECISION, method="json_schema", include_raw=True)
    answer = model.invoke([*prompt, *history(state), current(state)])
    decision = answer["parsed"]
    chosen = decision["primary_agent"]
    first, *queue = [chosen] if isinstance(chosen, str) else chosen
    return Command(
        goto=NODES[first],
        update={
            "router_decision": decision,
            "routing_history": [decision],
            "queue": queue,
            "usage_tracker": [{"agent": "router", "usage": usage_of([answer["raw"]])}],
        },
    )


def next_of(state: GraphState) -> tuple[str, list[str]]:
    """Returns who goes on in this turn, and who is left then."""
    first, *queue = [*state.get("queue", []), END]
    return NODES.get(first, END), [name for name in queue if name != END]


def coach(name: str) -> Callable[[GraphState], Command[str]]:
    """Returns the node of one coach."""
    tools = {one.name: one for one in TOOLS[name]}
    model = llm.bind_tools(TOOLS[name]) if tools else llm

    def execute(state: GraphState) -> Command[str]:
        said = conversation(state, name, PROMPTS[name])
        made: list[AnyMessage] = []
        called: list[str] = []
        results: dict[str, Any] = {}
        errors: list[str] = []
        while True:
            answer = model.invoke([*said, *made])
            answer.name = name
            made.append(answer)
            if not answer.tool_calls:
                break
            for call in answer.tool_calls:
                if call["name"] == "transfer_to_workout_analyst":
                    return handed_over(name, call["args"])
                called.append(call["name"])
                try:
                    result = tools[call["name"]].invoke(call["args"])
                except Exception as problem:
                    text = str(problem)
                    errors.append(text)
                else:
                    results[call["name"]] = result
                    text = compact(result)
                made.append(ToolMessage(text, tool_call_id=call["id"], name=call["name"]))
        goto, queue = next_of(state)
        return Command(
            goto=goto,
            update={
                "messages": [answer],
                "agent_outputs": {
                    name: {
                        "agent": name,
                        "reply": str(answer.text),
                        "tools_called": called,
                        "tool_results": results,
                        "messages": made,
                    }
                },
                "errors": errors,
                "queue": queue,
                "usage_tracker": [{"agent": name, "usage": usage_of(made)}],
            },
        )

    return execute


def handed_over(source: str, request: dict[str, Any]) -> Command[str]:
    """Lets the workout analyst go on in a coach's place."""
    context = {
        "from": source,
        "to": "workout_analyst",
        "type": request["type"],
        "payload": request["payload"],
    }
    return Command(update={"handoff_context": context}, goto=NODES["workout_analyst"])


def build() -> Any:
    """Returns the graph."""
    graph = StateGraph(GraphState)
    graph.add_node("router", router, destinations=tuple(NODES.values()))
    for name, node in NODES.items():
        graph.add_node(node, coach(name), destinations=(*NODES.values(), END))
    graph.add_edge(START, "router")
    return graph.compile(checkpointer=InMemorySaver())


graph = build()

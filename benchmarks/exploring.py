"""The cost of exploring: a conversation of five turns beside a scenario of five turns, and drawing.

The simulation's models answer with the scenario's lines, so that both do the same work. Choosing,
and keeping what was chosen as lines, is what exploring adds; Hypothesis draws the numbers.

The last rows are whole campaigns: every order of three parallel agents, with a bug that needs two
of their answers in a certain order. Then drawn conversations of a LangGraph application, beside the
same conversations of the bare application: with its own client, whose transport answers at once,
and with a fake model, which leaves out what the client costs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.conversations import PIPELINE, conversation
from benchmarks.measuring import medians
from benchmarks.wire import APPS, JSON
from simkit.core.messages import Message
from simkit.explore.choices import ChoiceLog, Plan, TurnPlan
from simkit.explore.chunks import Chunk
from simkit.explore.conversations import ExploredRun, converse, converse_by
from simkit.explore.drawing import draw
from simkit.explore.subjects import Subject, pipeline_subject, simulation_subject
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in
from tests.explore.searching import search, search_all

TURNS = 5
CONVERSATIONS = 100
SIMULATION = """
---
version: 1
simulation: generated
pipeline: support
models:
  triage: {json: {to: [billing, writer]}}
  billing: "The bill."
  writer: "The letter."
"""


CLERKS = """
version: 1
pipeline: clerks
channels:
  decision: {scope: turn}
  totals: {reducer: append, scope: turn}
defaults: {context: [instructions, current_message]}
agents:
  head: {instructions: You decide., writes: {decision: "${run.output}"}}
  a: {instructions: You are a., tools: [look], writes: {totals: ["${run.reply}"]}}
  b: {instructions: You are b., tools: [look], writes: {totals: ["${run.reply}"]}}
  c: {instructions: You are c., tools: [look], writes: {totals: ["${run.reply}"]}}
tools: {look: {args: {type: object}}}
flow: {router: {decide: head, to: "${run.output.to}"}}
---
version: 1
simulation: three clerks
pipeline: clerks
turns: 1
users: {u: {says: Hello.}}
tools: {look: {returns: ok}}
"""
FUNCTION = "{function: benchmarks.apps.clerks:%s}"
IN_TWO_CALLS = f"""
models: {{head: {FUNCTION % "opened"}, {", ".join(f"{n}: {FUNCTION % 'clerk'}" for n in "abc")}}}
always: {{state: {{totals: {{$not: ['1', '1', '2']}}}}}}
"""
IN_ONE_CALL = """
models: {head: {json: {to: {parallel: [a, b, c]}}}, a: A, b: B, c: C}
always: {state: {totals: {$not: [C, A, B]}}}
"""


@cache
def subject(text: str = PIPELINE + SIMULATION) -> Subject:
    """Returns a simulation; without a text, that of the generated conversation's pipeline."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "generated.simulation.yaml"
        file.write_text(text, encoding="utf-8")
        library = Library()
        (case,) = simulations_in(str(file), library.cache)
        return simulation_subject(library, case)


def rows(rounds: int) -> list[list[object]]:
    """Returns times of a scenario, of a simulated conversation, and of drawing one."""
    scenario = conversation(TURNS, claims=False)
    plan = Plan(tuple(TurnPlan() for _ in range(TURNS)))
    nothing = ExploredRun(({},), {}, 1)

    def draw() -> None:
        search(lambda plan: nothing, runs=CONVERSATIONS, turns_max=TURNS, seed=0)

    explore = partial(converse, subject(), plan)
    subjects: dict[str, Callable[[], object]] = {
        "a scenario of 5 turns": lambda: [simulate(scenario) for _ in range(CONVERSATIONS)],
        "a simulated conversation of 5 turns": lambda: [explore() for _ in range(CONVERSATIONS)],
        "drawing its numbers": draw,
    }
    for work in subjects.values():
        work()
    times = medians(subjects, rounds)
    base = next(iter(times.values()))
    table: list[list[object]] = [["", "CPU", "to the scenario"]]
    for name, seconds in times.items():
        one = seconds / CONVERSATIONS
        table.append([name, f"{one * 1000:.2f} ms", f"{seconds / base:.2f}×"])
    return [*table, *order_rows(rounds, base / CONVERSATIONS), *graph_rows(rounds)]


def order_rows(rounds: int, base: float) -> list[list[object]]:
    """Returns times of campaigns that take every order; ``base`` is a scenario's time."""
    campaigns = {}
    for name, text in (("", IN_ONE_CALL), (" of two calls, with functions", IN_TWO_CALLS)):
        run = partial(converse_by, subject(CLERKS + text))
        work = partial(search_all, run, runs=1_000, turns_max=1)
        campaign = work()
        (found,) = campaign.discoveries
        orders = f"all {campaign.runs} orders of three agents{name}"
        campaigns[orders] = work
        campaigns[f"… until the bug is found, in run {found.first}"] = partial(
            search_all, run, runs=found.first, turns_max=1
        )
    times = medians(campaigns, rounds)
    return [
        [name, f"{seconds * 1000:.2f} ms", f"{seconds / base:.2f}×"]
        for name, seconds in times.items()
    ]


Talk = Sequence[tuple[str, Sequence[Message]]]
"""A conversation: what the user says in each turn, and what the models answer."""


def graph_rows(rounds: int) -> list[list[object]]:
    """Returns times of drawn conversations of a LangGraph application, explored and bare."""
    try:
        import httpx2
        import langgraph_supervisor  # noqa: F401
        from langchain_openai import ChatOpenAI
    except ImportError as problem:
        return [["LangGraph, explored", f"{problem.name} is not installed", ""]]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    sys.path.insert(0, str(APPS))
    try:
        experts: Any = import_module("experts")
        coming: list[Message] = []

        def answer(request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, headers=dict(JSON), content=_body(coming.pop()))

        client = httpx2.Client(transport=httpx2.MockTransport(answer))
        own = experts.team(ChatOpenAI(model="gpt-5-mini", http_client=client))
        code = pipeline_subject(Library(), "experts:app")
        plans, talks = _drawn(code)
        subjects: dict[str, Callable[[], object]] = {
            "LangGraph: fake model": partial(_talk, _faked(experts.team, coming), talks, coming),
            "LangGraph: its own client": partial(_talk, own, talks, coming),
            "LangGraph: explored": lambda: [converse(code, plan) for plan in plans],
        }
        for work in subjects.values():
            work()
        times = medians(subjects, rounds)
    finally:
        sys.path.remove(str(APPS))
    calls = sum(len(answers) for talk in talks for _, answers in talk) / len(plans)
    base = times["LangGraph: its own client"]
    return [
        [
            f"{name}, {calls:.1f} calls a conversation",
            f"{seconds / len(plans) * 1000:.2f} ms",
            f"{seconds / base:.2f}× its own client",
        ]
        for name, seconds in times.items()
    ]


def _drawn(code: Subject) -> tuple[list[Plan | ChoiceLog], list[Talk]]:
    """Returns the plans of conversations, and what is said in them."""
    plans: list[Plan | ChoiceLog] = []
    talks: list[Talk] = []

    def run(plan: Plan | ChoiceLog) -> ExploredRun:
        record = converse(code, plan, observes=True)
        assert record.observed is not None
        turns = zip(record.turns, record.observed[1].turns, strict=True)
        plans.append(plan)
        talks.append(
            [
                (turn["user"], [call.reply or Message("assistant") for call in view.calls])
                for turn, view in turns
            ]
        )
        return record

    draw(run, Chunk(0, 0, 1, CONVERSATIONS), turns_max=TURNS, rare=len(code.rare))
    return plans, talks


def _talk(graph: Any, talks: Sequence[Talk], coming: list[Message]) -> None:
    """Has conversations with a bare graph; all answers must be asked for."""
    for talk in talks:
        messages: list[Any] = []
        for text, answers in talk:
            coming[:] = reversed(answers)
            messages = graph.invoke({"messages": [*messages, ("user", text)]})["messages"]
            assert not coming


def _body(message: Message) -> bytes:
    """Returns a model's answer as OpenAI sends it."""
    calls = [
        {"id": call.id, "type": "function",
         "function": {"name": call.name, "arguments": json.dumps(call.args)}}
        for call in message.calls
    ]  # fmt: skip
    said: dict[str, Any] = {"role": "assistant", "content": message.content}
    said |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": said}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "gpt-5-mini"}
    return json.dumps({**body, "choices": [choice], "usage": usage}).encode()


def _faked(team: Callable[[Any], Any], coming: list[Message]) -> Any:
    """Returns the graph with a model that is a function."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Fake(BaseChatModel):  # type: ignore[misc]
        @property
        def _llm_type(self) -> str:
            return "fake"

        def bind_tools(self, tools: Any, **options: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **options: Any) -> ChatResult:
            message = coming.pop()
            calls = [{"id": c.id, "name": c.name, "args": c.args} for c in message.calls]
            said = AIMessage(content=message.content, tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=said)])

    return team(Fake())

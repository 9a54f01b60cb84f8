"""Runs that are straight emit what the same runs emit step by step, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from simkit.core.errors import SimkitError
from simkit.runtime import flows
from simkit.runtime.straight_runs import ran_straight
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, Prepared, items_in, scenario_files
from tests.building import prepared
from tests.conversations import ROUTED, ROUTER, conversation
from tests.oracle.comparing import played
from tests.oracle.generator import FLOWS, Draw

SCENARIOS: Final = Path(__file__).resolve().parents[2] / "scenarios"

PIPELINE: Final = """
version: 1
pipeline: p
channels:
  last: {{}}
  notes: {{reducer: append}}
  counts: {{reducer: add}}
  facts: {{reducer: merge}}
agents:
  desk: {{instructions: Answer., {agent}}}
  other: {{instructions: Help.}}
flow: {{handoffs: {{start: desk}}}}
limits: {{{limits}}}
"""
TURNS: Final = """
turns:
  - {user: Hello, replies: {desk: Welcome}}
  - {user: More, replies: {desk: [{json: {to: [other], n: 2}}, Too much]}}
  - {user: Last, replies: {desk: 'It is {"a": 1}'}, expect: {}}
  - {user: '$more', replies: {desk: '$more'}}
  - {user: A reference, replies: {desk: {json: {$more: [1, {$message: 2}]}}}}
  - {user: A list, replies: {desk: {json: [{to: 1}, null, 1.5]}}}
  - {user: A text, replies: {desk: {json: text, usage: {input_tokens: 3}}}}
"""
AGENTS: Final = {
    "nothing more": "",
    "the log": "context: [instructions, history: {from: log, filters: [intermediate_ai]}]",
    "a window": "context: [history: {window: {messages: 2}}, current_message, instructions]",
    "writes of the reply": (
        "writes: {last: '${agent}: ${run.reply}', facts: {'${agent}': '${run.output}'}}"
    ),
    "writes of the state": (
        "writes: {last: '${state.last} ${user}', notes: ['${now}', '${run.took_ms}']}"
    ),
    "writes of texts to the conversation": (
        "writes: {messages: ['${run.reply}', '${run.final_message}']}"
    ),
    "writes of a list": "writes: {notes: ['${run.output.n}', '${input}'], counts: 1}",
    "writes of all": "writes: {facts: {all: '${state}', run: '${run}'}}",
    "writes under the agent's name": (
        "writes: {facts: {'${agent}': '${run.reply}'}, messages: ['${run.final_message}']}"
    ),
    "writes of messages": (
        "writes: {facts: {one: '${run.final_message}'}, notes: ['${run.final_message}', '${user}']}"
    ),
    "writes of one message twice": (
        "writes: {messages: ['${run.final_message}', '${run.final_message}']}"
    ),
    "writes of a message's text": "writes: {notes: ['It is ${run.final_message}.', '$${user}']}",
    "writes of a message's field": "writes: {notes: ['${run.final_message.content}']}",
    "writes of an output's key": "writes: {notes: ['${run.output.to}', '${run.output.n.m}']}",
    "writes of an output in a text": "writes: {notes: ['It is ${run.output}', '${run.output}']}",
    "writes under a reply's name": "writes: {facts: {inner: {'${run.reply}': 1}}}",
    "writes of what looks like a reference": (
        "writes: {facts: {a: {$message: 1}, b: {$more: '${run.output}'}}, notes: {$data: [1.5]}}"
    ),
    "writes of no number": "writes: {notes: [.nan, '${run.output}']}",
    "writes of constants": "writes: {facts: {a: [1, {b: null}]}, notes: done, counts: 2}",
    "writes of a number for a mapping": "writes: {facts: '${run.output}'}",
    "writes to an unknown channel": "writes: {'${agent}': '${run.output}'}",
    "no history": "context: [instructions, current_message]",
    "a history twice": "context: [history, history: {name: again, from: log}, current_message]",
    "the current message under another role": (
        "context: [current_message: {role: assistant, name: asked}, history]"
    ),
    "writes that fail": "writes: {counts: '${run.reply}'}",
    "no writes": "writes: {}",
    "json in text": "parse: json_in_text, writes: {last: '${run.output}'}",
    "json": "parse: json",
    "a title": "context: [instructions: {title: Yours}, history]",
    "the current message twice": (
        "context: [current_message, instructions, current_message: {name: again}]"
    ),
    "a rule": "after: [{when: {run: {reply: {$contains: W}}}, writes: {last: done}}]",
    "a schema": "output: {type: object}",
    "tools": "tools: [find]",
}
"""What an agent has beside its instructions."""


def stepped(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, int]:
    """Returns the result of work with and without straight runs, and how many there were."""
    runs = list[bool]()

    def counted(*of: Any) -> Any:
        runs.append(True)  # also if it fails
        result = ran_straight(*of)
        runs[-1] = result is not None
        return result

    results = []
    for replacement in (counted, lambda *of: None):
        with monkeypatch.context() as patch:
            patch.setattr(flows, "ran_straight", replacement)
            try:
                results.append(work())
            except SimkitError as problem:
                results.append(str(problem))
    return *results, sum(runs)


def same(scenario: Prepared, monkeypatch: pytest.MonkeyPatch) -> int:
    """Asserts that a scenario's trace does not depend on straight runs; returns their number."""
    straight, plain, number = stepped(lambda: run(scenario).lines(), monkeypatch)
    assert straight == plain
    return number


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("limits", ["", "agent_runs_per_turn: 1", "context_tokens: 20"])
def test_one_agent(name: str, limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = PIPELINE.format(agent=AGENTS[name], limits=limits)
    if name == "tools":
        pipeline += "tools: {find: {}}\n"

    number = same(prepared(pipeline, TURNS), monkeypatch)

    is_stepped = name in ("a title", "the current message twice", "a rule", "a schema")
    assert bool(number) is not is_stepped


USERS: Final = {
    "a value": "{user: {json: {a: 1}}, replies: {desk: Hello}}",
    "no text": "{user: '', replies: {desk: Hello}}",
    "a schedule": "{user: Hi, replies: {desk: Hello}, schedule: [desk]}",
}


@pytest.mark.parametrize("name", USERS)
def test_turns_that_are_not_plain(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = PIPELINE.format(agent="", limits="")
    turns = f"turns: [{{user: Hi, replies: {{desk: Welcome}}}}, {USERS[name]}]"
    assert same(prepared(pipeline, turns), monkeypatch) == 1


def test_answer_to_a_question_with_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls wait for the schedule; those before the question had none to wait for."""
    scenario = prepared(
        ROUTER,
        """
        turns:
          - {user: Hi, replies: {triage: {interrupt: Who are you?}}}
          - resume: Ann
            schedule: [triage, billing, writer]
            replies: {triage: {json: {to: [billing, writer]}}, billing: Bill, writer: Letter}
        """,
    )
    assert same(scenario, monkeypatch) == 0


def test_turns_after_one_with_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no fault any more, and its runs are straight again."""
    pipeline = PIPELINE.format(agent="", limits="")
    first = "{user: Hi, faults: [{error: rate_limit}], expect: {error: {type: ModelError}}}"
    scenario = prepared(pipeline, f"turns: [{first}, {{user: Hi, replies: {{desk: Welcome}}}}]")
    assert same(scenario, monkeypatch) == 1


def test_a_router(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(conversation(ROUTER, ROUTED, 4), monkeypatch) == 12


def test_a_limit_of_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that passes it is not straight: it fails after its event."""
    pipeline = ROUTER.replace("turns: 1000", "agent_runs_per_turn: 2")
    assert same(conversation(pipeline, ROUTED, 1), monkeypatch) == 2


@pytest.mark.parametrize("flow", FLOWS)
def test_drawn_pipelines(flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of their runs is straight: what decides that must not change anything."""
    for seed in range(3_000, 3_015):
        draw = Draw(seed, flow=flow)
        work = partial(played, draw.pipeline, draw.scenario)
        straight, plain, _ = stepped(work, monkeypatch)
        assert getattr(straight, "events", straight) == getattr(plain, "events", plain), seed


VALUES: Final = (
    "${run.reply}", "${run.output}", "${run.final_message}", "${user}", "${agent}: ${run.reply}",
    "${run.output.to}", {"${agent}": "${run.output}"}, ["${run.reply}", 1], None, 3,
)  # fmt: skip
HISTORIES: Final[tuple[Any, ...]] = (
    {}, {"from": "log"}, {"from": "side"}, {"from": "log", "filters": ["intermediate_ai"]},
    {"filters": ["tool_messages", "tool_calls", "intermediate_ai"]}, {"window": {"messages": 2}},
)  # fmt: skip


def routed(rng: Random) -> Prepared:
    """Returns a scenario of a router and three agents, of which most runs are straight."""
    agents = {}
    for name in ("router", "a", "b", "c"):
        writes: dict[str, Any] = {"side": ["${run.final_message}"], "messages": ["${run.reply}"]}
        writes |= {channel: rng.choice(VALUES) for channel in ("notes", "last", "of_turn")}
        writes["facts"] = {"one": rng.choice(VALUES), "${agent}": rng.choice(VALUES)}
        chosen = rng.sample(sorted(writes), rng.randint(1, len(writes)))
        recipe = ["instructions", {"history": rng.choice(HISTORIES)}, "current_message"]
        rng.shuffle(recipe)
        agents[name] = {
            "instructions": f"I am {name}.",
            "context": recipe,
            "writes": {channel: writes[channel] for channel in chosen},
        }
    to = rng.choice(["${run.output.to}", {"parallel": "${run.output.to}"}, ["a", "b"]])
    turns = []
    for number in range(rng.randint(1, 5)):
        targets = rng.sample(["a", "b", "c"], rng.randint(1, 3))
        lines = [f"Reply {number}", {"json": {"to": "x"}}, f'{{"to": {number}}}', "Same"]
        replies: dict[str, Any] = {name: rng.choice(lines) for name in ("a", "b", "c")}
        replies["router"] = {"json": {"to": targets}}
        turns.append({"user": rng.choice([f"Question {number}", "Same"]), "replies": replies})
    return prepared(
        f"""
        version: 1
        pipeline: p
        channels:
          notes: {{reducer: append}}
          last: {{}}
          of_turn: {{scope: turn}}
          facts: {{reducer: merge}}
          side: {{reducer: append}}
        agents: {json.dumps(agents)}
        flow: {json.dumps({"router": {"decide": "router", "to": to}})}
        """,
        f"turns: {json.dumps(turns)}",
    )


def mixed(rng: Random) -> Prepared:
    """Returns a conversation of straight runs and others, whose agents read the same histories."""
    filters = ["tool_messages", "tool_calls", "intermediate_ai"]
    histories: list[Any] = [
        {}, {"from": "log"}, {"from": "side"}, {"from": "log", "filters": filters},
        {"from": "side", "filters": ["intermediate_ai"]},
        {"from": "log", "filters": ["handoffs"]},
    ]  # fmt: skip
    message = "${run.final_message}"
    writes: list[Any] = [
        {"messages": [message]}, {"side": [message]}, {"messages": [message], "side": [message]},
        {"messages": "${state.side}"}, {"side": {"$set": [message]}}, {"side": "${state.messages}"},
        {"messages": {"$set": "${state.messages}"}}, {},
    ]  # fmt: skip
    names, some = ["router", "a", "b", "c"], rng.sample(histories, 2)
    agents = {}
    for name in names:
        recipe = ["instructions", {"history": rng.choice(some)}, "current_message"]
        agents[name] = {
            "instructions": f"I am {name}.",
            "context": recipe[: rng.choice((2, 3, 3))],
            "writes": rng.choice(writes),
            "tools": ["find"],
        }
    turns = []
    for number in range(rng.randint(4, 9)):
        targets = rng.sample(["a", "b", "c"], rng.randint(1, 3))
        replies: dict[str, Any] = {"router": {"json": {"to": targets}}}
        if len(targets) > 1 and rng.random() < 0.2:
            replies["router"] = {"json": {"to": {"parallel": targets}}}
        for name in ("a", "b", "c"):
            straight = f"{name} {number}"
            replies[name] = rng.choices(
                (straight, {"text": straight, "when": {"agent": name}},
                 [{"calls": {"find": {"what": number}}}, straight]),
                (6, 3, 1),
            )[0]  # fmt: skip
        turn = {"user": f"Question {number}", "replies": replies}
        turns.append({**turn, "tool_results": {"find": {"found": 1}}})
    return prepared(
        f"""
        version: 1
        pipeline: p
        channels: {{side: {{reducer: append}}}}
        tools: {{find: {{}}}}
        agents: {json.dumps(agents)}
        flow: {{router: {{decide: router, to: "${{run.output.to}}"}}}}
        """,
        f"turns: {json.dumps(turns)}",
    )


def test_drawn_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    number = 0
    for seed in range(150):
        number += same(mixed(Random(seed)), monkeypatch)
    assert number > 1_000


READERS: Final = """
version: 1
pipeline: p
channels: {{side: {{{channel}}}}}
agents:
  router: {{instructions: Choose., context: [instructions], writes: {{}}}}
  asks: {{instructions: A., context: [{history}, current_message], writes: {{side: [{message}]}}}}
  reads: {{instructions: B., context: [{history}, current_message], writes: {{}}}}
  also: {{instructions: C., context: [{history}, current_message], writes: {{}}}}
  says: {{instructions: D., context: [instructions], writes: {{messages: '${{state.side}}'}}}}
flow: {{router: {{decide: router, to: '${{run.output}}'}}}}
"""
FINAL_MESSAGE: Final = "'${run.final_message}'"
UNSAID: Final = "history: {from: side, filters: [intermediate_ai]}"


def readers(history: str, *turns: str, channel: str = "reducer: append") -> Prepared:
    """Returns a scenario of agents with one history, of which each turn runs some in order."""
    lines = ["turns:"]
    for number, names in enumerate(turns):
        replies: dict[str, list[Any]] = {"router": [{"json": names.split()}]}
        for place, name in enumerate(names.split()):
            replies.setdefault(name, []).append(f"{name} {number} {place}")
        lines.append(f"  - user: Question {number}\n    replies: {json.dumps(replies)}")
    pipeline = READERS.format(history=history, message=FINAL_MESSAGE, channel=channel)
    return prepared(pipeline, "\n".join(lines))


def test_users_message_that_stands_in_a_channel_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history shows none of them where the context shows the message elsewhere."""
    pipeline = ROUTER.replace(
        "writes: {decision:", 'writes: {messages: "${state.messages}", decision:'
    )
    assert same(conversation(pipeline, ROUTED, 2), monkeypatch) == 6


def test_a_message_becomes_part_of_the_conversation_in_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filters cut it for the agent that reads it before, not for the one after."""
    assert same(readers(UNSAID, "asks reads says also", "asks reads"), monkeypatch) == 8


def test_a_message_becomes_part_of_the_conversation_after_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Filters cut it for the agent that has read it in a turn between."""
    scenario = readers(UNSAID, "asks", "reads", "says also", "reads also", "asks also")
    assert same(scenario, monkeypatch) == 13


@pytest.mark.parametrize(
    "channel",
    [
        "reducer: {append: {last: 2}}",
        "reducer: union",
        "reducer: replace",
        "reducer: append, scope: project",
        "reducer: append, scope: turn",
        "reducer: append, scope: global",
    ],
)
def test_a_channel_that_does_not_only_grow(channel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = ("asks reads asks", "also", "asks also reads", "reads asks also")
    scenario = readers("history: {from: side}", *turns, channel=channel)
    assert same(scenario, monkeypatch) == 14


@pytest.mark.parametrize(("place", "filter"), [(0, "tool_calls"), (1, "tool_messages")])
def test_a_message_that_filters_edit_or_drop_by_its_kind(
    place: int, filter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call without its result, and a result without its call."""
    pipeline = """
    version: 1
    pipeline: p
    channels: {side: {reducer: append}}
    tools: {find: {}}
    agents:
      router:
        instructions: Choose.
        tools: [find]
        context: [instructions]
        writes: {side: ["${run.messages[PLACE]}"]}
      reads: {instructions: B., context: [history: {from: side, filters: [FILTER]}]}
    flow: {router: {decide: router, to: reads}}
    """.replace("PLACE", str(place)).replace("FILTER", filter)
    turn = """
      - user: Find it
        replies: {router: [{calls: {find: {}}}, Done], reads: Read}
        tool_results: {find: {found: 1}}
    """

    assert same(prepared(pipeline, f"turns:{turn * 2}"), monkeypatch) == 2


@pytest.mark.parametrize("filter", ["drop: {agent: asks}", "agents: {only: [asks]}"])
def test_filters_that_are_no_names(filter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = readers(f"history: {{from: log, filters: [{{{filter}}}]}}", "asks reads", "reads")
    assert same(scenario, monkeypatch) == 5


def test_messages_that_a_channel_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation has none of them; filters cut those of assistants."""
    default = (
        "reducer: append, default: [{role: user, content: Was}, {role: assistant, content: Is}]"
    )
    scenario = readers(UNSAID, "asks reads", "also reads", channel=default)
    assert same(scenario, monkeypatch) == 6


def test_drawn_routers(monkeypatch: pytest.MonkeyPatch) -> None:
    number = 0
    for seed in range(40):
        number += same(routed(Random(seed)), monkeypatch)
    assert number > 80


@pytest.mark.slow
@pytest.mark.parametrize("file", scenario_files(SCENARIOS), ids=lambda file: Path(file).stem)
def test_shipped_scenarios(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    for item in items_in(file):
        scenario = library.prepared(item)
        if scenario.skip is None:
            same(scenario, monkeypatch)

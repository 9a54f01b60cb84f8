"""Parallel branches: each sees the fork and what it wrote itself, in state, log and histories."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from simkit.core.messages import Answer, Message
from simkit.runtime.branch import Branch, BranchLogs, Path, common, in_blocks, log_of_branch
from simkit.runtime.models.script import ScriptedModel
from simkit.runtime.ports import ModelRequest
from simkit.trace.events import (
    AgentFinished,
    AgentStarted,
    AnyEvent,
    HistorySummarised,
    MessageAdded,
    StateUpdated,
    TurnStarted,
)
from tests.building import Ran, message_lines, run_yaml
from tests.runtime.graphs import graph, order, problems, ran
from tests.runtime.test_restart import NEW, stopped_and_not

# The values


def make_messages(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def texts(messages: Any) -> list[str]:
    return [message.content for message in messages]


def adding(values: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] + delta for name, delta in update.items()}


def test_log_of_a_branch_is_what_was_there_and_what_it_said() -> None:
    log = log_of_branch(make_messages("a", "b", "c"), 2, make_messages("x", "y"))

    assert texts(log) == ["a", "b", "x", "y"]
    assert len(log) == 4
    assert [log[0].content, log[2].content, log[-1].content, log[-4].content] == list("axya")


@pytest.mark.parametrize("place", [4, -5])
def test_log_of_a_branch_has_an_end(place: int) -> None:
    log = log_of_branch(make_messages("a", "b", "c"), 2, make_messages("x", "y"))

    with pytest.raises(IndexError):
        log[place]


def test_log_of_a_branch_is_cut_as_a_list_is() -> None:
    base, own = make_messages("a", "b", "c"), make_messages("x", "y")
    log, plain = log_of_branch(base, 2, own), [*base[:2], *own]
    places = [None, *range(-5, 6)]

    for start in places:
        for stop in places:
            for step in (None, 1, 2, -1):
                cut = slice(start, stop, step)
                assert log[cut] == plain[cut], cut


def test_branch_sees_its_own_writes_and_so_does_what_it_is_in() -> None:
    values = {"n": 1}
    outer = Branch("g1", "r1", None, values, [], adding)
    inner = Branch("g2", "r2", outer, outer.values(), outer.log(), adding)
    sibling = Branch("g2", "r3", outer, outer.values(), outer.log(), adding)

    inner.note({"n": 10}, frozenset({"n"}))
    inner.hear(Message("user", "x"))

    assert [item.values()["n"] for item in (outer, inner, sibling)] == [11, 11, 1]
    assert [texts(item.log()) for item in (outer, inner, sibling)] == [["x"], ["x"], []]
    assert [item.replaced for item in (outer, inner, sibling)] == [{"n"}, {"n"}, set()]
    assert values == {"n": 1}


def test_branch_begins_with_what_the_one_around_it_replaced() -> None:
    outer = Branch("g1", "r1", None, {"n": 1}, [], adding)
    outer.note({"n": 10}, frozenset({"n"}))
    inner = Branch("g2", "r2", outer, outer.values(), outer.log(), adding)

    assert (inner.replaced, inner.values(), inner.start_values) == ({"n"}, {"n": 11}, {"n": 1})


def test_common_branch_is_the_innermost_that_all_are_in() -> None:
    outer = Branch("g1", "r1", None, {}, [], adding)
    item, two = (Branch("g2", run, outer, {}, [], adding) for run in ("r2", "r3"))
    deep = Branch("g3", "r4", item, {}, [], adding)
    other = Branch("g1", "r5", None, {}, [], adding)

    assert common([item]) is item
    assert common([deep, item]) is item
    assert common([item, deep]) is item
    assert common([deep, two]) is outer
    assert common([deep, other]) is None
    assert common([deep, None]) is None
    assert common([None, deep]) is None


# What runs see

DIAMOND = "s>a s>b a>c b>m c>m"
TEXT = "context: [instructions, {shared: {from: outputs}}, {history: {from: log}}]"


def test_second_run_of_a_branch_sees_the_fork_and_its_own_branch() -> None:
    item = ran(
        graph(DIAMOND, {"c": TEXT, "m": TEXT}, s="role: split", m="role: merge, exit: true"),
        s="s", a="{text: a, latency_ms: 5}", b="b", c="c", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "c @5", "m @5"]
    assert {run.agent: run.received["seen"] for run in item.turn().runs} == {
        "s": [], "a": ["s"], "b": ["s"], "c": ["s", "a"], "m": ["s", "b", "a", "c"],
    }  # fmt: skip
    assert [(e.agent, e.branch) for e in item.events(AgentStarted)] == [
        ("s", ""), ("a", "r2"), ("b", "r3"), ("c", "r2"), ("m", ""),
    ]  # fmt: skip
    assert message_lines(item.context("c").messages) == [
        "system/c: C.", 'system: {"s":"s","a":"a"}', "user: Hi", "assistant/s: s", "assistant/a: a",
    ]  # fmt: skip
    assert message_lines(item.context("m").messages) == [
        "system/m: M.", 'system: {"s":"s","b":"b","a":"a","c":"c"}', "user: Hi", "assistant/s: s",
        "assistant/a: a", "assistant/c: c", "assistant/b: b",
    ]  # fmt: skip


def test_merge_of_inner_branches_sees_the_outer_branch_alone() -> None:
    item = ran(
        graph("s>a s>t t>b t>c b>i c>i i>o a>o", s="role: split", t="role: split", i="role: merge",
              o="role: merge, exit: true"),
        s="s", a="a", t="t", b="{text: b, latency_ms: 9}", c="c", i="i", o="o",
    )  # fmt: skip

    assert problems(item) == []
    assert {run.agent: run.received["seen"] for run in item.turn().runs} == {
        "s": [], "a": ["s"], "t": ["s"], "b": ["s", "t"], "c": ["s", "t"],
        "i": ["s", "t", "c", "b"], "o": ["s", "a", "t", "c", "b", "i"],
    }  # fmt: skip
    assert [(e.agent, e.branch, e.outer) for e in item.events(AgentStarted)][3:] == [
        ("b", "r4", "r3"), ("c", "r5", "r3"), ("i", "r3", ""), ("o", "", ""),
    ]  # fmt: skip


def test_decision_in_a_branch_reads_the_state_of_its_branch() -> None:
    item = ran(
        graph("s>a s>b a>x:one a>y:two b>m x>m y>m", s="role: split", a="role: decision",
              m="role: merge, exit: true")
        + "    route_by: {equals: '${state.outputs.b}'}\n",
        "{error: {type: NoRoute}}", s="s", a="{text: a, latency_ms: 5}", b="one",
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == (
        "NoRoute", "node 'a' decided null, which is none of its labels: one, two"
    )  # fmt: skip


def test_delegate_in_a_branch_sees_the_branch() -> None:
    item = ran(
        graph(DIAMOND, {"c": "handoffs: [helper]", "helper": TEXT},
              "contracts: [{from: c, to: helper, mode: delegate}]",
              s="role: split", m="role: merge, exit: true"),
        s="s", a="{text: a, latency_ms: 5}", b="b",
        c="[{handoff: {to: helper, query: Help}}, c]", helper="Helped.", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert item.runs("helper")[0].received["seen"] == ["s", "a"]
    assert message_lines(item.context("helper").messages) == [
        "system/helper: HELPER.", 'system: {"s":"s","a":"a"}', "user: Hi", "assistant/s: s",
        "assistant/a: a", 'assistant/c: [transfer_to_helper{"type":"handoff","query":"Help"}]',
    ]  # fmt: skip
    assert item.runs("m")[0].received["seen"] == ["s", "b", "a", "helper", "c"]


def test_branch_that_replaces_its_conversation_leaves_the_others_as_they_were() -> None:
    clears = "writes: {messages: {$set: ['${run.final_message}']}}"
    outcome = run_yaml(
        graph("s>a s>b a>m b>m", {"a": clears}, s="role: split", m="role: merge, exit: true"),
        """
        turns:
          - {user: One, replies: {s: s1, a: a1, b: b1, m: m1}}
          - {user: Two, replies: {s: s2, a: a2, b: b2, m: m2}}
          - {user: Three, replies: {s: s3, a: a3, b: b3, m: m3}}
        """,
    )

    assert outcome.history("b", 2) == [
        "assistant/a: a1", "assistant/b: b1", "assistant/m: m1", "assistant/s: s2",
    ]  # fmt: skip
    assert outcome.history("m", 2) == ["assistant/a: a2", "assistant/b: b2"]
    assert outcome.history("b", 3) == [
        "assistant/a: a2", "assistant/b: b2", "assistant/m: m2", "assistant/s: s3",
    ]  # fmt: skip
    assert outcome.history("s", 3) == ["assistant/a: a2", "assistant/b: b2", "assistant/m: m2"]


# Against a naive recomputation


def longest(current: str | None, update: str) -> str:
    return update if len(update) > len(current or "") else str(current)


def reduced(channel: str, value: Any, delta: Any) -> Any:
    if isinstance(delta, dict) and set(delta) == {"$set"}:
        return delta["$set"]
    if channel == "outputs":
        return {**value, **delta}
    if channel == "words":
        return longest(value, delta)
    return [*value, *(delta if isinstance(delta, list) else [delta])]


class Naive:
    """What each run must have seen, found from the events alone, everything looked at again."""

    def __init__(self, outcome: Ran) -> None:
        self.resolved = outcome.view.resolved
        self.events: list[AnyEvent] = outcome.trace.events
        self.branch: dict[str, str] = {}
        self.fork: dict[str, tuple[str, int]] = {}
        groups: dict[str, int] = {}
        for place, event in enumerate(self.events):
            if isinstance(event, AgentStarted):
                self.branch[event.run] = event.branch
                if event.group:
                    began = groups.setdefault(event.group, place)
                    self.fork[event.run] = event.outer, began

    def lineage(self, branch: str) -> Iterator[str]:
        while branch:
            yield branch
            branch = self.fork[branch][0]

    def visible(self, branch: str, end: int) -> list[AnyEvent]:
        if not branch:
            return self.events[:end]
        outer, began = self.fork[branch]
        own = [
            event
            for event in self.events[began:end]
            if event.run and branch in self.lineage(self.branch[event.run])
        ]
        return [*self.visible(outer, began), *own]

    def runs(self) -> Iterator[tuple[str, dict[str, Any], list[Message]]]:
        """Yields each run with the state and the log that it must have seen."""
        user: Message | None = None
        for place, event in enumerate(self.events):
            if isinstance(event, TurnStarted):
                user = None
            if isinstance(event, MessageAdded) and user is None:
                user = event.message
            if not isinstance(event, AgentStarted):
                continue
            state: dict[str, Any] = {"outputs": {}, "seen": [], "words": None, "messages": []}
            for item in self.visible(event.branch, place):
                if isinstance(item, StateUpdated):
                    for name, delta in item.update.items():
                        state[name] = reduced(name, state[name], self.resolved(delta))
            log = [message.message for message in self.log(event.branch, place)]
            yield event.run, state, [message for message in log if message is not user]

    def log(self, branch: str, end: int) -> list[MessageAdded]:
        """What a branch sees of the log: of runs in others, what has ended, branch by branch."""
        outer, began = self.fork[branch] if branch else ("", 0)
        ended = {event.run for event in self.events[:end] if isinstance(event, AgentFinished)}
        own = [
            event
            for event in self.events[began:end]
            if isinstance(event, MessageAdded)
            and (not branch or branch in self.lineage(self.branch.get(event.run, "")))
            and (self.branch.get(event.run, "") == branch or event.run in ended)
        ]
        return [*(self.log(outer, began) if branch else ()), *self.in_blocks(own, branch)]

    def in_blocks(self, log: list[MessageAdded], reader: str) -> list[MessageAdded]:
        """Moves what each branch said behind what its group had said before, group by group."""
        openers = [branch for branch in self.fork if branch not in self.lineage(reader)]
        groups: dict[int, list[str]] = {}
        for branch in openers:
            groups.setdefault(self.fork[branch][1], []).append(branch)
        for _, branches in sorted(groups.items(), reverse=True):
            parts = [
                [item for item in log if branch in self.lineage(self.branch.get(item.run, ""))]
                for branch in branches
            ]
            block = [item for part in parts for item in part]
            if block:
                start = min(log.index(item) for item in block)
                before = [item for item in log[:start] if item not in block]
                log = [*before, *block, *(item for item in log[start:] if item not in block)]
        return log


class Drawn:
    """A random graph of splits with merges, decisions and chains, and turns that run it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.edges: list[str] = []
        self.nodes: dict[str, str] = {}
        self.agents: dict[str, str] = {}

    def node(self, reply: str = "") -> str:
        name = f"n{len(self.nodes)}"
        self.nodes[name] = reply
        source = self.chance.choice(["log", "log", "messages"])
        writes = ""
        if self.chance.random() < 0.12:
            writes = ", writes: {messages: {$set: ['${run.final_message}']}}"
        self.agents[name] = (
            "tools: [look], context: [instructions, {history: {from: "
            f"{source}}}}}, current_message]{writes}"
        )
        return name

    def block(self, depth: int) -> tuple[str, list[str]]:
        """Draws a part of the graph; returns its first node and the last ones."""
        kind = self.chance.choice(["one", "chain", "split", "split", "decision"])
        if depth == 0 or kind == "one":
            name = self.node()
            return name, [name]
        if kind == "chain":
            first, ends = self.block(depth - 1)
            second, last = self.block(depth - 1)
            self.edges += [f"{end}>{second}" for end in ends]
            return first, last
        head = self.node(f"role: {kind}")
        parts = [self.block(depth - 1) for _ in range(self.chance.choice([2, 2, 3]))]
        for place, (first, _) in enumerate(parts):
            self.edges.append(f"{head}>{first}" + (f":w{place}" if kind == "decision" else ""))
        ends = [end for _, last in parts for end in last]
        meet = self.node("role: merge")
        self.edges += [f"{end}>{meet}" for end in ends]
        return head, [meet]

    def run(self, turns: int) -> Ran:
        first, ends = self.block(3)
        self.nodes[first] = ", ".join(item for item in ("start: true", self.nodes[first]) if item)
        for end in ends:
            self.nodes[end] = ", ".join(item for item in (self.nodes[end], "exit: true") if item)
        head = """
channels:
  outputs: {reducer: merge}
  seen: {reducer: append}
  words: {reducer: "tests.functions:longest"}
defaults:
  writes:
    messages: ["${run.final_message}"]
    outputs: {"${agent}": "${run.output}"}
    seen: "${agent}"
    words: "${run.reply}"
tools: {look: {}}
limits: {agent_runs_per_turn: 200}
"""
        pipeline = graph(" ".join(self.edges), self.agents, head=head, **self.nodes)
        text = "".join(self.turn(number) for number in range(turns))
        return run_yaml(pipeline, f"lints: {{RUN-01: drawn}}\nturns:\n{text}")

    def turn(self, number: int) -> str:
        lines = []
        for name, report in self.nodes.items():
            late = self.chance.choice([0, 0, 5, 10, 20])
            text = f"{name} in {number}{'!' * self.chance.randrange(9)}"
            if "decision" in report:
                ways = [edge for edge in self.edges if edge.startswith(f"{name}>")]
                text = self.chance.choice(ways).partition(":")[2]
            line = f"{{text: {text}, latency_ms: {late}}}"
            if self.chance.random() < 0.3:
                line = f"[{{calls: [look: {{}}], latency_ms: 2}}, {line}]"
            lines.append(f"{name}: {line}")
        return (
            f"  - user: Turn {number}\n    replies: {{{', '.join(lines)}}}\n"
            f"    tool_results: {{look: seen {number}}}\n"
        )


@pytest.mark.parametrize("seed", range(40))
def test_runs_see_what_a_naive_recomputation_finds(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: dict[str, list[Message]] = {}
    answer = ScriptedModel.answer

    def noting(model: ScriptedModel, request: ModelRequest) -> Answer:
        messages[request.call] = list(request.messages())
        return answer(model, request)

    monkeypatch.setattr(ScriptedModel, "answer", noting)

    completed = Drawn(seed).run(turns=3)

    assert [turn.error for turn in completed.view.turns] == [None] * 3
    compared = 0
    for run, state, log in Naive(completed).runs():
        result = completed.view.runs[run]
        received = {name: list(v) if name in ("seen", "messages") else v
                    for name, v in result.received.items()}  # fmt: skip
        assert received == state, (run, result.agent)
        context = result.calls[0].context
        assert messages[result.calls[0].id] == list(context.messages), (run, result.agent)
        history = message_lines(context.section("history"))
        user = completed.view.turns[result.turn - 1].message
        channel = [message for message in state["messages"] if message is not user]
        assert history in (message_lines(log), message_lines(channel)), (run, result.agent)
        compared += 1
    assert compared >= 3


# The order alone


def identified(text: str) -> list[Message]:
    return [Message("user", word, word) for word in text.split()]


PATHS: dict[str, Path] = {
    "a1": (("g1", 2),), "a2": (("g1", 2),), "b1": (("g1", 3),), "b2": (("g1", 3),),
    "c1": (("g1", 2), ("g2", 4)), "d1": (("g1", 2), ("g2", 5)), "d2": (("g1", 2), ("g2", 5)),
    "z1": (("g3", 10),), "y1": (("g3", 9),),
}  # fmt: skip


@pytest.mark.parametrize(
    ("response", "stands"),
    [
        ("x y", "x y"),
        ("x a1 b1 a2 b2 y", "x a1 a2 b1 b2 y"),
        ("b1 a1", "a1 b1"),
        ("a1 x b1 y a2", "a1 a2 b1 x y"),
        ("a1 b1 d1 c1 b2 d2 a2", "a1 c1 d1 d2 a2 b1 b2"),
        ("a1 b1 x z1 y1", "a1 b1 x y1 z1"),
    ],
)
def test_branches_stand_together_in_the_order_of_their_group(response: str, stands: str) -> None:
    ordered = in_blocks(identified(response), PATHS)

    assert [item.content for item in ordered] == stands.split()
    assert in_blocks(ordered, PATHS) == ordered


def test_other_branches_are_seen_when_their_run_has_ended() -> None:
    logs = BranchLogs()
    log = identified("x a1 b1")
    for message, run in ((log[1], "r2"), (log[2], "r3")):
        logs.at_work.add(run)
        logs.hear(message, run, PATHS[message.id])

    assert [item.id for item in logs.in_order(log)] == ["x"]
    logs.end("r3")
    assert [item.id for item in logs.in_order(log)] == ["x", "b1"]
    assert [item.id for item in logs.in_order(log[1:2], PATHS["a1"])] == ["a1"]


# What agents are shown

READS = "context: [instructions, {history: {from: log%s}}, current_message]"
USES = "[{calls: {look: {}}, latency_ms: 10}, {text: done, latency_ms: %d}]"
TOOLS = "tools: {look: {}}"
BLOCKS = ["a calls look", "look answers a", "a", "b calls look", "look answers b", "b"]


def wide(read: str = "", edges: str = "s>a s>b a>m b>m", **nodes: str) -> str:
    """A split in which ``a`` and ``b`` use tools side by side, and ``m`` reads the log."""
    agents = {
        "a": "tools: [look]", "b": "tools: [look]", "m": READS % read,
        **{name: "tools: [look], " + READS % "" for name in "cno" if name in nodes},
    }  # fmt: skip
    merges = {name: "role: merge" for name in nodes}
    return graph(edges, agents, TOOLS, s="role: split", **{**merges, **nodes})


def turn(user: str, more: str = "", **replies: str) -> str:
    lines = {"s": "s", "a": USES % 10, "b": USES % 5, "m": "m", **replies}
    text = ", ".join(f"{agent}: {line}" for agent, line in lines.items())
    return f"  - user: {user}\n    tool_results: {{look: x}}\n    replies: {{{text}}}\n{more}"


def describe_messages(messages: Sequence[Message], *agents: str) -> list[str]:
    """Who said what of these agents, in few words."""
    return [
        f"{m.tool} answers {m.agent}" if m.role == "tool"
        else f"{m.agent} calls {m.calls[0].name}" if m.calls else f"{m.agent}"
        for m in messages if m.agent in agents and m.role != "system"
    ]  # fmt: skip


def test_tool_traffic_of_branches_is_not_mixed() -> None:
    outcome = run_yaml(wide(m="role: merge, exit: true"), "turns:\n" + turn("Hi") + turn("More"))

    assert problems(outcome) == []
    messages = [event.message for event in outcome.events(MessageAdded)]
    assert describe_messages(messages, "a", "b") != BLOCKS * 2
    assert describe_messages(outcome.context("m", 1).messages, "a", "b") == BLOCKS
    assert describe_messages(outcome.context("m", 2).messages, "a", "b") == BLOCKS * 2


def test_merges_that_are_ready_at_once_are_a_group_of_their_own() -> None:
    ways = "s>a s>b a>m b>m a>n b>n m>o n>o"
    outcome = run_yaml(
        wide(
            edges=ways,
            a="role: split",
            b="role: split",
            m="role: merge",
            n="role: merge",
            o="role: merge, exit: true",
        ),
        "turns:\n" + turn("Hi", n=USES % 3, o="o"),
    )  # fmt: skip

    assert problems(outcome) == []
    assert order(outcome)[3:5] == ["m g2 @20", "n g2 @20"]
    assert describe_messages(outcome.context("n").messages, "m", "n") == []
    assert describe_messages(outcome.context("o").messages, "m", "n") == [
        "m",
        "n calls look",
        "look answers n",
        "n",
    ]


def test_what_runs_at_work_have_said_is_not_shown_half() -> None:
    ways = "s>a s>b s>c a>m b>m"
    outcome = run_yaml(
        wide(edges=ways, m="role: merge, exit: true", c="exit: true"),
        "turns:\n" + turn("Hi", c=USES % 500) + turn("More", c=USES % 1),
    )

    assert problems(outcome) == []
    assert describe_messages(outcome.context("m", 1).messages, "a", "b", "c") == BLOCKS
    later = describe_messages(outcome.context("m", 2).messages, "a", "b", "c")
    assert later[:9] == [*BLOCKS, "c calls look", "look answers c", "c"]


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_a_summary_covers_each_message_once_where_blocks_are_cut(window: int) -> None:
    agents = f", window: {{messages: {window}}}, summary: w"
    pipeline = wide(agents, m="role: merge, exit: true").replace(
        "agents:\n", "agents:\n  w: {instructions: W.}\n", 1
    )
    outcome = run_yaml(
        pipeline, "turns:\n" + turn("Hi", w="W1") + turn("More", w="W2") + turn("Last", w="W3")
    )

    assert outcome.view.error is None
    summarised = [
        m.number for number in (1, 2, 3)
        for call in outcome.calls("w", number) for m in call.context.messages if m.number
    ]  # fmt: skip
    assert len(summarised) == len(set(summarised))
    read = outcome.context("m", 3).messages
    numbers = {message.number for message in read if message.section != "current_message"}
    before = {
        event.message.number for event in outcome.events(MessageAdded)
        if event.message.agent not in ("m", "w") or event.turn < 3
    }  # fmt: skip
    assert before - numbers - set(summarised) <= {
        message.number for message in [outcome.turn(3).message] if message
    }
    assert len(outcome.events(HistorySummarised)) == 3


@pytest.mark.parametrize("window", [1, 3, 6])
def test_what_a_summary_has_not_seen_of_a_branch_at_work_is_in_the_next(window: int) -> None:
    summed = f", window: {{messages: {window}}}, summary: w"
    pipeline = wide(
        summed, edges="s>a s>b s>c a>m b>m", m="role: merge, exit: true", c="exit: true"
    ).replace("agents:\n", "agents:\n  w: {instructions: W.}\n", 1)

    outcome = run_yaml(
        pipeline,
        "turns:\n" + turn("Hi", c=USES % 500, w="W1") + turn("More", c=USES % 500, w="W2"),
    )

    assert outcome.view.error is None
    summarised = [
        m.number for number in (1, 2)
        for call in outcome.calls("w", number) for m in call.context.messages if m.number
    ]  # fmt: skip
    numbers = [message.number for message in outcome.context("m", 2).messages if message.number]
    of_c = [
        event.message.number for event in outcome.events(MessageAdded)
        if event.message.agent == "c" and event.turn == 1
    ]  # fmt: skip
    assert len(of_c) == 3
    assert sorted(set(of_c) & {*summarised, *numbers}) == of_c
    assert len(summarised) == len(set(summarised))


@pytest.mark.slow
def test_blocks_outlive_the_process() -> None:
    scenario = "turns:\n" + turn("Hi") + turn("More", f"    {NEW}\n") + turn("Last")
    stopped, uninterrupted = stopped_and_not(wide(m="role: merge, exit: true"), scenario)

    assert stopped == uninterrupted

"""Parallel branches: each sees the fork and what it wrote itself, in state, log and histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.runtime.conversation import Branch, BranchLogs, Path, common, in_blocks, log_of_branch
from simkit.trace.events import AgentStarted, HistorySummarised, MessageAdded
from tests.building import message_lines, run_yaml
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


def test_the_end_of_a_run_of_a_branch_is_counted_once() -> None:
    logs = BranchLogs(at_work={"r1"})

    for run in ("r2", "r1", "r1"):
        logs.end(run)

    assert (logs.at_work, logs.ended) == (set(), 1)


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
        pipeline, "turns:\n" + turn("Hi", c=USES % 500, w="W1") + turn("More", c=USES % 500, w="W2")
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

"""What parallel branches said stands branch by branch, in the order of their group."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simkit.core.messages import Message
from simkit.runtime.blocks import BranchLogs, Path, in_blocks
from simkit.trace.events import HistorySummarised, MessageAdded
from tests.building import run_yaml
from tests.runtime.graphs import graph, order, problems
from tests.runtime.test_restart import NEW, stopped_and_not

# The order alone


def make_messages(text: str) -> list[Message]:
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
    ordered = in_blocks(make_messages(response), PATHS)

    assert [item.content for item in ordered] == stands.split()
    assert in_blocks(ordered, PATHS) == ordered


def test_other_branches_are_seen_when_their_run_has_ended() -> None:
    logs = BranchLogs()
    log = make_messages("x a1 b1")
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

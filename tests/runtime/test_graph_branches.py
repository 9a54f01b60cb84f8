"""The graph flow: branches that part and meet, loops, and what goes wrong in a branch."""

from __future__ import annotations

from typing import Any

from simkit.trace.events import AgentFinished, AgentStarted, LimitReached, TurnFinished
from tests.building import Ran, message_lines, run_yaml
from tests.runtime.graphs import graph, order, problems, ran

READS_UPSTREAM = "context: [instructions, upstream]"


def inputs(outcome: Ran) -> dict[str, Any]:
    return {run.agent: run.input for run in outcome.turn().runs}


def afters(outcome: Ran) -> dict[str, list[str]]:
    """Each run with the agents whose runs led to it."""
    agents = {event.run: event.agent for event in outcome.events(AgentStarted)}
    return {e.agent: [agents[run] for run in e.after] for e in outcome.events(AgentStarted)}


DIAMOND = "s>a s>b a>m b>m"


def test_split_runs_its_edges_in_parallel_and_a_merge_reads_both() -> None:
    item = ran(
        graph(DIAMOND, {"m": "context: [instructions, input, upstream]"}, s="role: split",
              m="role: merge, exit: true"),
        "{agents: [s, [a, b], m]}", s="Both.", a="From a.", b="From b.", m="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "m"]
    assert inputs(item) == {
        "s": "Hi", "a": "Both.", "b": "Both.", "m": {"a": "From a.", "b": "From b."},
    }  # fmt: skip
    assert afters(item) == {"s": [], "a": ["s"], "b": ["s"], "m": ["a", "b"]}
    assert message_lines(item.context("m").messages) == [
        "system/m: M.",
        'user: {"a":"From a.","b":"From b."}',
        'system: {"a":{"output":"From a.","tool_calls":[]},'
        '"b":{"output":"From b.","tool_calls":[]}}',
    ]
    assert item.turn().reply == "End."


def test_merge_waits_for_the_slower_branch() -> None:
    item = ran(
        graph(DIAMOND, s="role: split", m="role: merge, exit: true"),
        s="x", a="{text: a, latency_ms: 300}", b="{text: b, latency_ms: 20}", m="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "m @300"]
    # What was there first stands first.
    assert list(inputs(item)["m"]) == ["b", "a"]
    assert afters(item)["m"] == ["b", "a"]


def test_merge_waits_for_a_longer_branch() -> None:
    item = ran(
        graph("s>a s>b a>c c>d d>m b>m", s="role: split", m="role: merge, exit: true"),
        s="x", a="a", b="{text: b, latency_ms: 5}", c="{text: c, latency_ms: 7}", d="d", m="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "c", "d @7", "m @7"]
    assert inputs(item)["m"] == {"b": "b", "d": "d"}


def test_merge_does_not_wait_for_a_branch_that_cannot_reach_it() -> None:
    item = ran(
        graph("s>a s>b s>c a>m b>m", s="role: split", m="role: merge, exit: true", c="exit: true"),
        s="x", a="a", b="{text: b, latency_ms: 5}", c="{text: c, latency_ms: 50}", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "c g1", "m @5"]
    assert inputs(item)["m"] == {"a": "a", "b": "b"}
    # The branch that ends last has the last word.
    assert item.turn().reply == "c"


def test_merge_starts_once_a_branch_has_decided_not_to_reach_it() -> None:
    item = ran(
        graph("s>a s>b a>m b>m:in b>c:out", s="role: split", b="role: decision",
              m="role: merge, exit: true", c="exit: true"),
        s="x", a="a", b="{text: out, latency_ms: 5}", c="{text: c, latency_ms: 50}", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "c @5", "m @5"]
    assert inputs(item)["m"] == {"a": "a"}


def test_merge_starts_once_a_branch_has_ended_at_an_exit() -> None:
    item = ran(
        graph("s>a s>b a>m b>m:in", s="role: split", b="role: decision, exit: true",
              m="role: merge, exit: true"),
        s="x", a="a", b="{text: No., latency_ms: 5}", m="m",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "m @5"]
    assert (inputs(item)["m"], item.turn().reply) == ({"a": "a"}, "m")


def test_merge_behind_a_decision_waits_for_nobody_else() -> None:
    item = ran(
        graph("t>a:left t>b:right a>m b>m", {"m": READS_UPSTREAM}, t="role: decision",
              m="role: merge, exit: true"),
        t="right", b="From b.", m="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["t", "b", "m"]
    assert inputs(item)["m"] == {"b": "From b."}
    assert message_lines(item.context("m").section("upstream")) == [
        'system: {"b":{"output":"From b.","tool_calls":[],"decision":{"node":"t","label":"right"}}}'
    ]


def test_split_may_lead_to_its_merge_directly() -> None:
    item = ran(
        graph("s>b s>m b>m", s="role: split", m="role: merge, exit: true"), s="x", b="y", m="z"
    )

    assert problems(item) == []
    assert inputs(item)["m"] == {"s": "x", "b": "y"}
    assert afters(item)["m"] == ["s", "b"]


def test_merge_that_nothing_else_reaches_runs_beside_the_other_branch() -> None:
    item = ran(
        graph("s>m s>b m>n b>c", s="role: split", m="role: merge", n="exit: true", c="exit: true"),
        s="x", b="{text: b, latency_ms: 10}", m="{text: m, latency_ms: 5}", n="n", c="c",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "b g1", "m g1", "n @5", "c @10"]
    assert {run.agent: run.received["seen"] for run in item.turn().runs if run.agent in "nc"} == {
        "n": ["s", "m"], "c": ["s", "b"],
    }  # fmt: skip


def test_branches_may_part_again_and_meet_twice() -> None:
    item = ran(
        graph("s>a s>t t>b t>c b>i c>i i>o a>o", s="role: split", t="role: split", i="role: merge",
              o="role: merge, exit: true"),
        "{agents: [s, [a, t], [b, c], i, o]}",
        s="s", t="t", a="a", b="{text: b, latency_ms: 9}", c="c", i="i", o="o",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "t g1", "b g2", "c g2", "i @9", "o @9"]
    assert inputs(item) == {
        "s": "Hi", "a": "s", "t": "s", "b": "t", "c": "t", "i": {"c": "c", "b": "b"},
        "o": {"a": "a", "i": "i"},
    }  # fmt: skip


def test_merge_waits_for_a_merge_that_leads_to_it() -> None:
    item = ran(
        graph("s>a s>b s>c a>first b>first first>second c>second", s="role: split",
              first="role: merge", second="role: merge, exit: true"),
        s="x", a="a", b="{text: b, latency_ms: 30}", c="{text: c, latency_ms: 10}",
        first="{text: one, latency_ms: 5}", second="two",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "c g1", "first @30", "second @35"]
    assert inputs(item)["second"] == {"c": "c", "first": "one"}


def test_two_merges_may_follow_each_other() -> None:
    item = ran(
        graph("s>a s>b a>m b>m m>t t>c t>d c>n d>n", s="role: split", m="role: merge",
              t="role: split", n="role: merge, exit: true"),
        "{agents: [s, [a, b], m, t, [c, d], n]}",
        s="s", a="a", b="b", m="m", t="t", c="c", d="d", n="n",
    )  # fmt: skip

    assert problems(item) == []
    assert inputs(item)["n"] == {"c": "c", "d": "d"}


def test_branches_may_end_apart() -> None:
    item = ran(
        graph("s>a s>b b>c", s="role: split", a="exit: true", c="exit: true"),
        s="x", a="{text: a, latency_ms: 90}", b="b", c="c",
    )  # fmt: skip

    assert (problems(item), order(item), item.turn().reply) == ([], ["s", "a g1", "b g1", "c"], "a")


# Loops


def test_loop_runs_until_its_decision_leaves_it() -> None:
    item = ran(
        graph("write>check check>write:again check>send:good", check="role: decision",
              send="exit: true"),
        write="[One, Two, Three]", check="[again, again, good]", send="Sent.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == [*["write", "check"] * 3, "send"]
    assert [run.input for run in item.runs("write")] == ["Hi", "again", "again"]


def test_loop_without_an_end_is_stopped_by_the_limit_of_runs() -> None:
    item = ran(
        graph("write>check check>write:again check>send:good", check="role: decision",
              send="exit: true", more="limits: {agent_runs_per_turn: 5}"),
        "{error: {type: LimitExceeded}, findings: [{id: FLW-01}]}",
        write="[One, Two, Three]", check="[again, again]",
    )  # fmt: skip

    assert problems(item) == []
    assert len(item.turn().runs) == 5
    assert [(e.limit, e.allowed) for e in item.events(LimitReached)] == [("agent_runs_per_turn", 5)]
    assert item.error() == (
        "LimitExceeded", "limit `agent_runs_per_turn` reached: 5 allowed"
    )  # fmt: skip


def test_merge_inside_a_loop_starts_once_a_round() -> None:
    item = ran(
        graph("s>a s>b a>m b>m m>check check>s:again check>e:done", s="role: split",
              m="role: merge", check="role: decision", e="exit: true"),
        s="[s1, s2]", a="[a1, {text: a2, latency_ms: 8}]", b="[{text: b1, latency_ms: 4}, b2]",
        m="[m1, m2]", check="[again, done]", e="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == [
        "s", "a g1", "b g1", "m @4", "check @4",
        "s @4", "a g2 @4", "b g2 @4", "m @12", "check @12", "e @12",
    ]  # fmt: skip
    assert [run.input for run in item.runs("m")] == [{"a": "a1", "b": "b1"}, {"b": "b2", "a": "a2"}]


def test_branch_may_transfer_and_still_reaches_its_merge() -> None:
    item = ran(
        graph(DIAMOND, {"a": "handoffs: [helper]", "helper": ""},
              "contracts: [{from: a, to: helper}]", s="role: split", m="role: merge, exit: true"),
        s="x", a="{handoff: {to: helper, query: Help}}", b="b", m="m",
        helper="{text: Helped., latency_ms: 3}",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["s", "a g1", "b g1", "helper", "m @3"]
    assert inputs(item)["m"] == {"b": "b", "a": "Helped."}
    helper = item.runs("helper")[0]
    assert helper.received["seen"] == ["s"]


# What goes wrong in a branch


def test_error_in_one_branch_ends_the_turn_and_cancels_the_others() -> None:
    item = ran(
        graph("s>a s>t t>b t>c c>d a>m b>m d>m", s="role: split", t="role: split",
              m="role: merge, exit: true"),
        "{error: {type: rate_limit}}",
        s="s", t="t", a="{error: rate_limit, latency_ms: 5}", b="{text: b, latency_ms: 20}", c="c",
        d="{text: d, latency_ms: 20}",
    )  # fmt: skip

    assert problems(item) == []
    ends = [
        event for event in item.trace.events if isinstance(event, (AgentFinished, TurnFinished))
    ]
    assert [(e.agent, e.status) for e in ends if isinstance(e, AgentFinished)][-3:] == [
        ("a", "failed"), ("b", "cancelled"), ("d", "cancelled"),
    ]  # fmt: skip
    assert isinstance(ends[-1], TurnFinished)
    assert ends[-1].at == 5


def test_conversation_goes_on_after_an_error_in_a_branch() -> None:
    outcome = run_yaml(
        graph(DIAMOND, s="role: split", m="role: merge, exit: true"),
        """
        turns:
          - user: One
            replies: {s: x, a: {error: timeout, latency_ms: 1}, b: {text: b, latency_ms: 4}}
            expect: {error: {type: timeout}}
          - {user: Two, replies: {s: x, a: a, b: b, m: m}}
        """,
    )

    assert problems(outcome) == []
    assert order(outcome) == ["s @1", "a g2 @1", "b g2 @1", "m @1"]
    assert outcome.turn().reply == "m"

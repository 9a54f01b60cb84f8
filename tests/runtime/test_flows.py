"""The graph flow: nodes along edges, decisions, branches that part and meet, loops."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.trace.events import AgentFinished, AgentStarted, RouteChosen, TurnFinished
from tests.building import Ran, message_lines, run_yaml
from tests.runtime.graphs import graph, order, problems, ran

READS_INPUT = "context: [instructions, input, current_message]"
READS_UPSTREAM = "context: [instructions, upstream]"


def inputs(outcome: Ran) -> dict[str, Any]:
    return {run.agent: run.input for run in outcome.turn().runs}


def afters(outcome: Ran) -> dict[str, list[str]]:
    """Each run with the agents whose runs led to it."""
    agents = {event.run: event.agent for event in outcome.events(AgentStarted)}
    return {e.agent: [agents[run] for run in e.after] for e in outcome.events(AgentStarted)}


# One way on


def test_what_a_node_puts_out_is_the_input_of_the_next() -> None:
    item = ran(
        graph("a>b b>c", {"b": READS_INPUT, "c": READS_INPUT}, c="exit: true"),
        a="First.", b="{json: {n: 2}}", c="Third.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["a", "b", "c"]
    assert inputs(item) == {"a": "Hi", "b": "First.", "c": {"n": 2}}
    assert message_lines(item.context("b").messages) == ["system/b: B.", "user: First.", "user: Hi"]
    assert message_lines(item.context("c").messages) == [
        "system/c: C.",
        'user: {"n":2}',
        "user: Hi",
    ]
    assert item.turn().reply == "Third."
    assert item.state("seen") == ["a", "b", "c"]


def test_run_names_the_run_that_led_to_it() -> None:
    item = ran(graph("a>b b>c", c="exit: true"), a="x", b="y", c="z")

    assert [(e.agent, e.run, e.after, e.branch) for e in item.events(AgentStarted)] == [
        ("a", "r1", (), ""),
        ("b", "r2", ("r1",), ""),
        ("c", "r3", ("r2",), ""),
    ]


def test_node_that_is_the_start_and_the_exit_is_a_whole_graph() -> None:
    item = ran(graph("", only="start: true, exit: true"), only="Done.")

    assert (order(item), item.turn().reply) == (["only"], "Done.")


def test_nodes_of_one_definition_run_under_their_own_names() -> None:
    item = ran(
        graph("draft>critic critic>final", {"writer": ""}, draft="agent: writer",
              final="agent: writer, exit: true"),
        draft="One.", critic="Short.", final="Two.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["draft", "critic", "final"]
    assert item.state("outputs") == {"draft": "One.", "critic": "Short.", "final": "Two."}
    assert message_lines(item.context("final").section("instructions")) == ["system/final: WRITER."]
    assert item.history("final") == ["assistant/draft: One.", "assistant/critic: Short."]


def test_function_may_be_a_node() -> None:
    item = ran(
        graph("a>b b>c", {"b": "function: 'tests.functions:what_came'", "c": READS_INPUT},
              c="exit: true"),
        a="{json: {n: 1}}", c="Seen.",
    )  # fmt: skip

    assert problems(item) == []
    assert inputs(item)["c"] == {
        "input": {"n": 1}, "task": None,
        "upstream": {"a": {"output": {"n": 1}, "tool_calls": []}},
    }  # fmt: skip


def test_node_that_reads_its_input_is_not_run_on_nothing() -> None:
    item = ran(
        graph("a>b", {"a": "function: 'tests.functions:nothing'", "b": READS_INPUT},
              b="exit: true"),
        "{error: {type: InputInvalid}}",
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == (
        "InputInvalid",
        "agent 'b' reads its input, but the output of 'a', which ran before it, is null",
    )
    assert order(item) == ["a"]


def test_node_that_reads_no_input_runs_on_nothing() -> None:
    item = ran(
        graph("a>b", {"a": "function: 'tests.functions:nothing'"}, b="exit: true"), b="Still here."
    )

    assert (problems(item), item.turn().reply) == ([], "Still here.")


def test_upstream_shows_output_and_tool_calls() -> None:
    item = ran(
        graph("a>b b>c", {"a": "tools: [look]", "b": READS_UPSTREAM, "c": READS_UPSTREAM},
              "tools: {look: {}}", c="exit: true"),
        a="[{calls: [look: {at: sky}]}, Blue.]", b="Noted.", c="End.",
        more="start: 2026-01-05T09:00:00Z",
        expect="{}\n    tool_results: {look: {returns: {seen: sun}, latency_ms: 40}}",
    )  # fmt: skip

    assert problems(item) == []
    assert message_lines(item.context("b").section("upstream")) == [
        'system: {"a":{"output":"Blue.","tool_calls":[{"call_id":"call1","tool":"look",'
        '"args":{"at":"sky"},"result":{"seen":"sun"},"error":null,'
        '"called_at":"2026-01-05T09:00:00.000Z","returned_at":"2026-01-05T09:00:00.040Z"}]}}'
    ]
    assert message_lines(item.context("c").section("upstream")) == [
        'system: {"b":{"output":"Noted.","tool_calls":[]}}'
    ]


# Decisions


def decided(reply: str, route: str = "", labels: str = "create update", **more: str) -> Ran:
    edges = " ".join(f"triage>{label}:{label}" for label in labels.split())
    exits: Any = {label.replace("else", "other"): "exit: true" for label in labels.split()}
    pipeline = graph(edges.replace(">else:", ">other:"), triage="role: decision", **exits)
    if route:
        pipeline += f"    route_by: {route}\n"
    targets = {name: f"I {name}." for name in more.pop("runs", "").split()}
    return ran(pipeline, more.pop("expect", "{}"), more.pop("more", ""), triage=reply, **targets)


@pytest.mark.parametrize("reply", ["{json: {decision: update}}", "update"])
def test_decision_takes_the_edge_whose_label_it_says(reply: str) -> None:
    outcome = decided(reply, runs="update")

    assert problems(outcome) == []
    assert order(outcome) == ["triage", "update"]
    assert [(e.agent, e.run, e.targets, e.labels) for e in outcome.events(RouteChosen)] == [
        ("triage", "r1", ("update",), ("update",))
    ]


def test_decision_is_equal_to_a_label_not_near_it() -> None:
    outcome = decided("do an update", expect="{error: {type: NoRoute}}")

    assert problems(outcome) == []
    assert outcome.error() == (
        "NoRoute",
        "node 'triage' decided \"do an update\", which is none of its labels: create, update",
    )
    assert outcome.turn().reply is None


def test_decision_by_contents_takes_a_label_that_occurs() -> None:
    outcome = decided("do an update", "{contains: '${run.output}'}", runs="update")

    assert (problems(outcome), order(outcome)) == ([], ["triage", "update"])


def test_first_of_several_edges_is_taken_and_all_labels_are_told() -> None:
    outcome = decided(
        "first create then update", "{contains: '${run.output}'}", runs="create",
        expect="{findings: [{id: FLW-08}]}",
    )  # fmt: skip

    assert problems(outcome) == []
    assert order(outcome) == ["triage", "create"]
    assert [(e.targets, e.labels) for e in outcome.events(RouteChosen)] == [
        (("create",), ("create", "update"))
    ]


def test_two_edges_of_one_label_are_one_label() -> None:
    item = ran(
        graph("t>a:go t>b:go", t="role: decision", a="exit: true", b="exit: true"), t="go", a="x"
    )

    assert problems(item) == []
    assert [(e.targets, e.labels) for e in item.events(RouteChosen)] == [(("a",), ("go",))]


def test_decision_may_be_read_anywhere() -> None:
    pipeline = graph(
        "t>a:big t>b:small", {"t": "writes: {size: '${run.output.size}'}"},
        head="channels: {size: {scope: turn}}", t="role: decision", a="exit: true", b="exit: true",
    )  # fmt: skip
    item = ran(f"{pipeline}    route_by: {{equals: '${{state.size}}'}}", t="{json: {size: small}}",
              b="x")  # fmt: skip

    assert (problems(item), order(item)) == ([], ["t", "b"])


@pytest.mark.parametrize(("reply", "label"), [("{json: {decision: true}}", "'true'"),
                                             ("{json: {decision: 2}}", "'2'")])  # fmt: skip
def test_decision_that_is_no_text_is_compared_as_text(reply: str, label: str) -> None:
    pipeline = graph("t>a:yes t>b:x", t="role: decision", a="exit: true", b="exit: true")
    item = ran(pipeline.replace('"label": "yes"', f'"label": {label}'), t=reply, a="x")

    assert (problems(item), order(item)) == ([], ["t", "a"])


def test_else_is_taken_where_no_label_matches() -> None:
    outcome = decided("sing", labels="create else update", runs="other")

    assert problems(outcome) == []
    assert order(outcome) == ["triage", "other"]
    assert [(e.targets, e.labels) for e in outcome.events(RouteChosen)] == [(("other",), ("else",))]


def test_else_gives_way_to_a_label_that_stands_behind_it() -> None:
    outcome = decided("update", labels="else update", runs="update")

    assert (problems(outcome), order(outcome)) == ([], ["triage", "update"])


def test_long_decision_is_quoted_in_part() -> None:
    outcome = decided("x" * 200, "{contains: '${run.output}'}", expect="{error: {type: NoRoute}}")

    assert outcome.error() == (
        "NoRoute",
        f"node 'triage' decided \"{'x' * 118}…, which holds none of its labels: create, update",
    )


def test_decision_about_nothing_matches_no_label() -> None:
    outcome = decided("sing", "{contains: '${run.output.way}'}", expect="{error: {type: NoRoute}}")

    assert outcome.error() == (
        "NoRoute", "node 'triage' decided null, which holds none of its labels: create, update"
    )  # fmt: skip


def test_decision_at_an_exit_that_nothing_matches_ends_the_turn() -> None:
    pipeline = graph("t>a:go a>t", t="role: decision, exit: true")
    item = ran(pipeline, t="[go, All done.]", a="More.")

    assert problems(item) == []
    assert order(item) == ["t", "a", "t"]
    assert len(item.events(RouteChosen)) == 1
    assert item.turn().reply == "All done."


def test_runs_after_a_decision_are_shown_it() -> None:
    item = ran(
        graph("t>a:go a>b", {"a": READS_UPSTREAM, "b": READS_UPSTREAM}, t="role: decision",
              b="exit: true"),
        t="go", a="x", b="y",
    )  # fmt: skip

    decision = '"decision":{"node":"t","label":"go"}'
    assert message_lines(item.context("a").section("upstream")) == [
        f'system: {{"t":{{"output":"go","tool_calls":[],{decision}}}}}'
    ]
    assert message_lines(item.context("b").section("upstream")) == [
        f'system: {{"a":{{"output":"x","tool_calls":[],{decision}}}}}'
    ]


# Agents that hand off inside a node


def test_node_whose_agent_delegates_goes_on_with_its_own_output() -> None:
    item = ran(
        graph("a>b", {"a": "handoffs: [helper]", "helper": "", "b": READS_INPUT},
              "contracts: [{from: a, to: helper, mode: delegate}]", b="exit: true"),
        a="[{handoff: {to: helper, query: Help}}, Mine.]", helper="Helped.", b="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["a", "helper", "b"]
    assert (inputs(item)["b"], afters(item)["b"]) == ("Mine.", ["a"])


def test_node_whose_agent_transfers_goes_on_with_what_the_target_put_out() -> None:
    item = ran(
        graph("a>b", {"a": "handoffs: [helper]", "helper": "", "b": READS_UPSTREAM},
              "contracts: [{from: a, to: helper}]", b="exit: true"),
        a="{handoff: {to: helper, query: Help}}", helper="Helped.", b="End.",
    )  # fmt: skip

    assert problems(item) == []
    assert order(item) == ["a", "helper", "b"]
    assert (inputs(item)["b"], afters(item)["b"]) == ("Helped.", ["helper"])
    assert message_lines(item.context("b").section("upstream")) == [
        'system: {"a":{"output":"Helped.","tool_calls":[]}}'
    ]


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

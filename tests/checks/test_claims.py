"""Findings on claims: their place, the lines they show, and how much of what differs."""

from __future__ import annotations

import pytest

from simkit.checks.claims import listed, listing, run_of, write_of
from simkit.checks.findings import Difference, scope_of_run, scope_of_turn
from simkit.spec.scenario.claims import Expect
from simkit.trace import events as e
from simkit.trace.views import View, view_of
from tests.checks.judging import MEALS, judged, with_claims
from tests.checks.traces import Story


def test_a_finding_stands_at_the_line_inside_the_claim_that_does_not_hold() -> None:
    claims = """
        state:
          total: 2
          decision:
            to: coach
    """

    document, judgement = judged(with_claims(MEALS, claims))

    (finding,) = judgement.findings
    last = len(document._text.split("\n"))
    assert finding.where == f"test.scenario.yaml:{last}:15"
    assert finding.path == ("turns", 1, "expect", "state", "decision", "to")
    assert finding.excerpt == "state:\n  total: 2\n  decision:\n    to: coach"


def test_of_a_long_claim_the_part_around_the_difference_is_shown() -> None:
    channels = "\n".join(f"  - user: Question {number}" for number in range(20))
    claims = f"reply: Nothing more.\nstate:\n  messages:\n{channels.replace('  -', '    -')}"

    _, judgement = judged(with_claims(MEALS, claims))

    finding, *others = judgement.findings
    assert finding.path[-2:] == (0, "user")
    assert finding.excerpt == "- user: Question 0"
    assert [other.path[-2:] for other in others] == [
        (1, "user"), (2, "user"), (3, "user"),
        *(("messages", line) for line in range(4, 8)),
    ]  # fmt: skip
    assert others[-1].differences[-1] == Difference("", "", "", "and 12 more differences")


def test_each_line_of_a_claim_that_differs_has_a_finding_with_its_reason() -> None:
    claims = """
        agents:
          - router
          - analyst
          - - coach
            - analyst
        state:
          messages: {$len: {$gt: 3}}
          total: 4
          decision:
            to: nobody
    """

    document, judgement = judged(with_claims(MEALS, claims))

    places = [
        (".".join(map(str, finding.path[3:])), finding.differences[0].at, finding.context[-1:])
        for finding in judgement.findings
    ]
    by = "was written in turn 2 by"
    lines = [int(finding.where.split(":")[1]) for finding in judgement.findings]
    assert places == [
        ("state.decision.to", "decision.to", (f"channel decision {by} router",)),
        ("agents.1", "[1]", ("agents that ran in turn 2: router, nutrition",)),
        ("state.total", "total", (f"channel total {by} nutrition",)),
        ("agents.2", "[2]", ()),
    ]
    assert lines == [document.line(finding.path) for finding in judgement.findings]


def test_only_the_first_differences_are_shown() -> None:
    text = ", ".join(f"channel_{number}: 1" for number in range(15))

    _, judgement = judged(with_claims(MEALS, f"state: {{decision: {{{text}}}}}"))

    (finding,) = judgement.findings
    assert len(finding.differences) == 13
    assert finding.differences[0] == Difference("decision.channel_0", "1", "absent")
    assert finding.differences[-1] == Difference("", "", "", "and 3 more differences")


def test_names_and_lines_are_cut() -> None:
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    assert listed([str(n) for n in range(30)]).endswith("10, 11, … (30 in all)")
    assert list(listing("all:", "ab", str, "none")) == ["all:", "  1. a", "  2. b"]
    assert list(listing("all:", [], str, "none")) == ["none"]
    assert list(listing("all:", range(10), str, "none"))[-3:] == [
        "  6. 5", "  … 3 more", "  10. 9",
    ]  # fmt: skip


def written_twice() -> View:
    """Two runs side by side write the same channels, each twice; a third one only starts."""
    story = Story(
        ["a", "b", "c"],
        channels={
            name: e.ChannelFacts(reducer="replace", scope="session") for name in ("x", "y", "z")
        },
    )
    story.turn()
    first = story.start("a")
    story.call(story.instructions())
    story.write({"x": 1})
    second = story.start("b")
    story.call(story.instructions())
    story.write({"x": 1, "y": 1})
    story.resume("a", first)
    story.write({"x": 2, "y": 2})
    story.write({"z": 2})
    story.call(story.instructions())
    story.finish()
    story.resume("b", second)
    story.finish()
    story.start("c")
    story.finish_turn()
    return view_of(story.trace.events)


def kind_and_fields(view: View, index: int | None) -> tuple[object, ...]:
    assert index is not None
    event = view.events[index]
    return type(event).__name__, event.agent, getattr(event, "update", getattr(event, "call", ""))


@pytest.mark.parametrize(
    ("run", "moment", "channels", "expected"),
    [
        (0, "start", [], ("ContextBuilt", "a", "c1")),
        (0, "end", [], ("ContextBuilt", "a", "c3")),
        (0, "write", ["x"], ("StateUpdated", "a", {"x": 2, "y": 2})),
        (1, "write", ["x"], ("StateUpdated", "b", {"x": 1, "y": 1})),
        (1, "write", ["z", "y"], ("StateUpdated", "b", {"x": 1, "y": 1})),
        (1, "write", ["z"], ("ContextBuilt", "b", "c2")),
        (1, "write", [], ("ContextBuilt", "b", "c2")),
        (2, "start", [], ("AgentStarted", "c", "")),
        (2, "end", [], ("AgentFinished", "c", "")),
    ],
)
def test_a_failing_claim_on_a_run_is_located_at_an_event_of_that_run(
    run: int, moment: str, channels: list[str], expected: tuple[object, ...]
) -> None:
    view = written_twice()
    scope = scope_of_turn(view.turns[0], 0, Expect(), view)

    index = run_of(scope, view.turns[0].runs[run], moment, channels)

    assert kind_and_fields(view, index) == expected


def test_a_failing_claim_on_the_state_is_located_at_the_last_write() -> None:
    view = written_twice()
    scope = scope_of_run(Expect(), view)

    assert kind_and_fields(view, write_of(scope, "x"))[2] == {"x": 2, "y": 2}
    assert write_of(scope, "nothing") is None

"""Findings on claims: their place, the lines they show, and how much of what differs."""

from __future__ import annotations

from simkit.checks.claims import listed, listing
from simkit.checks.findings import Difference
from tests.checks.judging import MEALS, judged, with_claims


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

    (finding,) = judgement.findings
    assert finding.path[-2:] == (0, "user")
    assert finding.excerpt == "- user: Question 0"


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
    assert list(listing("all:", "ab", str, "none")) == ["all:", "  [0] a", "  [1] b"]
    assert list(listing("all:", [], str, "none")) == ["none"]
    assert list(listing("all:", range(10), str, "none"))[-3:] == [
        "  [5] 5", "  … 3 more", "  [9] 9",
    ]  # fmt: skip

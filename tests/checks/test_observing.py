"""What a driver does not see can be neither claimed nor denied: such a claim never passes."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from simkit.trace import events as e
from tests.checks.judging import HANDOFFS, MEALS, describe_findings, text


def blind_to(*subject: str) -> Callable[[e.AnyEvent], list[e.AnyEvent]]:
    """Edits a trace so that its driver did not see something."""

    def edit(event: e.AnyEvent) -> list[e.AnyEvent]:
        if isinstance(event, e.RunStarted):
            sees = tuple(ability for ability in event.pipeline.observes if ability not in subject)
            facts = replace(event.pipeline, observes=sees)
            return [replace(event, driver="wire", pipeline=facts)]
        return [event]

    return edit


@pytest.mark.parametrize(
    "claim",
    [
        "context: {nutrition: {history: {$len: 2}}}",
        "context: {nutrition: {sections: {$has: history}}}",
        "context: {nutrition: {share: {history: {$gt: 0.1}}}}",
        "context: {nutrition: {includes: [{section: history}]}}",
        "context: {nutrition: {excludes: [{section: run}]}}",
        "context: {nutrition: {messages: {$not: {$has: {section: run}}}}}",
    ],
)
def test_without_sections_no_claim_on_them_holds(claim: str) -> None:
    value = describe_findings(MEALS, claim)
    result = describe_findings(MEALS, claim, edit=blind_to("sections"))

    assert value == ""
    assert "is not observable by driver 'wire', which does not see sections of contexts" in result
    assert result.count("claim E") == 1


def test_without_sections_and_filters_nothing_is_known_to_be_dropped() -> None:
    claim = "context: {nutrition: {dropped: {$len: 4}}}"

    assert describe_findings(MEALS, claim) == ""
    assert "does not see what filters drop" in describe_findings(
        MEALS, claim, edit=blind_to("sections")
    )


def seeing_filters(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Edits a trace so that its driver saw filters, and no sections."""
    if isinstance(event, e.RunStarted):
        return [replace(event, pipeline=replace(event.pipeline, observes=("filters",)))]
    return [event]


def test_who_sees_filters_sees_what_they_drop_without_sections() -> None:
    assert (
        describe_findings(MEALS, "context: {nutrition: {dropped: {$len: 4}}}", edit=seeing_filters)
        == ""
    )
    assert "dropped does not match" in describe_findings(
        MEALS, "context: {nutrition: {dropped: {$len: 3}}}", edit=seeing_filters
    )


@pytest.mark.parametrize(
    "claim",
    [
        "context: {nutrition: {messages: {$len: 4}, includes: [And now?], excludes: [{role: tool}]}}",
        "context: {nutrition: {tools: [log_meal], tokens: 20}}",
        "model_calls: {nutrition: 1}",
        "reply: Nothing more.",
    ],
)
def test_messages_are_seen_without_sections(claim: str) -> None:
    assert describe_findings(MEALS, claim, edit=blind_to("sections")) == ""


@pytest.mark.parametrize(
    ("need", "claim"),
    [
        ("runs", "agents: [router, nutrition]"),
        ("runs", "runs: {nutrition: {output: Nothing more.}}"),
        ("runs", "runs: {nutrition: {update: {total: 1}}}"),
        ("runs", "events: {$not: {$has: {kind: {$in: [AgentFinished]}, agent: coach}}}"),
        ("state", "state: {scratch: {$absent: true}}"),
        ("state", "runs: {nutrition: {received: {scratch: {$absent: true}}}}"),
        ("state", "events: {$has: {kind: StateUpdated}}"),
        ("handoffs", "handoffs: []"),
        ("handoffs", "events: {$not: {$has: {kind: HandoffMade}}}"),
    ],
)
def test_what_is_not_seen_is_not_denied(need: str, claim: str) -> None:
    value = describe_findings(MEALS, claim)
    result = describe_findings(MEALS, claim, edit=blind_to(need))

    assert value == ""
    assert "is not observable by driver 'wire'" in result
    assert result.count("claim E") == 1


def test_the_finding_says_what_is_not_seen_and_what_to_do() -> None:
    result = describe_findings(HANDOFFS, """
        handoffs: {$len: 2}
        context:
          coach:
            excludes: [Hello]
            history: []
    """, edit=blind_to("handoffs", "sections"))  # fmt: skip

    assert result == text("""
        claim E [turn 1]
        handoffs is not observable by driver 'wire', which does not see handoffs
        at `{$len: 2}`
        -> Remove the claim, or run a driver that sees them.

        claim E [turn 1, coach]
        context.coach.history is not observable by driver 'wire', which does not see sections of contexts
        at `[]`
        -> Say which messages are of which section, `agents: {coach: {sections: {}}}`, or claim `includes`, `excludes` or `messages`.
    """)


@pytest.mark.parametrize(
    ("claim", "fix"),
    [
        (
            "context: {nutrition: {current_message: []}}",
            "Say which messages are of which section, `agents: {nutrition: {sections: "
            "{}}}`, or claim `includes`, `excludes` or `messages`.",
        ),
        (
            "context: {coach: {plan: []}}",
            "Say which messages are of which section, `agents: {coach: {sections: {plan: "
            "{system: {$starts: …}}}}}`, or claim `includes`, `excludes` or `messages`.",
        ),
        (
            "context: {nutrition: {includes: [{section: run}]}}",
            "Say which messages are of which section, `agents: {nutrition: {sections: {}}}`, or "
            "leave `section` out of it.",
        ),
        (
            "context: {nutrition: {share: {history: 1}}}",
            "Claim `includes`, `excludes` or `messages`, or remove the claim.",
        ),
        (
            'context: {"*": {history: []}}',
            "Claim `includes`, `excludes` or `messages`, or remove the claim.",
        ),
        (
            "context: {nutrition: {dropped: []}}",
            "Claim what is not sent, with `excludes`, or remove the claim.",
        ),
        (
            "state: {total: 1}",
            "Report it in the code, `simkit.state(name=value)`, or remove the claim.",
        ),
        ("handoffs: [{to: coach}]", "Remove the claim, or run a driver that sees them."),
    ],
)
def test_of_code_the_finding_says_how_to_show_it_or_what_to_claim_instead(
    claim: str, fix: str
) -> None:
    result = describe_findings(
        MEALS, claim, edit=blind_to("sections", "filters", "state", "handoffs")
    )

    assert [line for line in result.splitlines() if line.startswith("->")] == [f"-> {fix}"]

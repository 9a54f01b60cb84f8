"""What a provider reuses of a request, by its rule, and the claim `prefix: {provider: true}`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from simkit.checks.cache_reuse import reused_tokens, rule_of
from simkit.trace import events as e
from simkit.trace.views import prefix_of, view_of
from tests.adapters.running import run_app
from tests.adapters.scribes import Desk, assistant, system, user
from tests.building import run_yaml

LONG = "Say what each repair of a bicycle costs, and be kind to all who ask. " * 90
"""1,553 tokens."""
BASE = [system(LONG), user("Hi")]
MORE = [*BASE, assistant("Well."), user("And now?")]
CHANGED = [system(LONG), user("Hey")]


def reused(
    model: str,
    messages: list[Any],
    *,
    seconds: int = 0,
    marks: tuple[tuple[tuple[int, int], ...], ...] = ((), ()),
) -> int:
    """What is reused of a request after one with the base."""
    desk = Desk()
    desk.turn("Hi")
    for request in (BASE, messages):
        desk.answers(desk.asks(request, model=model), "Well.")
    events = list[e.AnyEvent]()
    for event in desk.trace.events:
        if isinstance(event, e.ContextBuilt):
            place = int(event.call[1:]) - 1
            event = replace(event, marks=marks[place], at=1000 * seconds * place)
        events.append(event)
    old, new = (call.context for call in view_of(events).calls.values())
    prefix, rule = prefix_of(new), rule_of(new)
    assert prefix is not None
    assert rule is not None
    return reused_tokens(old, new, prefix, rule)


END = ((2, 0),)


@pytest.mark.parametrize(
    ("model", "messages", "more", "tokens"),
    [
        ("gpt-5-mini", MORE, {}, 1536),
        ("gpt-5-mini", CHANGED, {}, 1536),
        ("gpt-5-mini", MORE, {"seconds": 360}, 0),
        ("gpt-5.6", MORE, {}, 1554),
        ("gpt-5.6", CHANGED, {}, 0),
        ("gemini-2.5-flash", MORE, {}, 0),
        ("claude-sonnet-4-5", MORE, {}, 0),
        ("claude-sonnet-4-5", MORE, {"marks": (END, ((4, 0),))}, 1554),
        ("claude-sonnet-4-5", CHANGED, {"marks": (END, END)}, 0),
        ("claude-sonnet-4-5", CHANGED, {"marks": (((1, 0), *END), ((1, 0), *END))}, 1553),
        ("claude-sonnet-4-5", MORE, {"marks": (((0, 5000),), ((0, 5000),))}, 1250),
        ("claude-sonnet-4-5", MORE, {"marks": (END, ((24, 0),))}, 0),
        ("claude-haiku-4-5", MORE, {"marks": (END, ((4, 0),))}, 0),
    ],
)  # fmt: skip
def test_a_rule_says_what_is_reused(
    model: str, messages: list[Any], more: dict[str, Any], tokens: int
) -> None:
    assert reused(model, messages, **more) == tokens


def judged(app: str, pause: str, claim: str) -> list[str]:
    """What a claim on an assistant's second turn finds."""
    ran = run_app(
        f"cached_prompts:{app}",
        f"""
        turns:
          - {{user: Good morning, replies: {{home: Hello.}}}}
          - user: Warmer
            pause: {pause}
            replies: {{home: Done.}}
            expect: {{context: {{home: {{prefix: {claim}}}}}}}
        """,
    )
    return [line for finding in ran.judgement.findings for line in (finding.what, *finding.context)]


def test_a_claim_is_about_what_the_provider_reuses() -> None:
    claim = "{provider: true, tokens: {$gte: 1280}}"

    assert judged("ordered", "4 s", claim) == []
    assert judged("clock_first", "4 s", claim)[1:3] == [
        "OpenAI reuses fronts of 1,024 tokens and more, in steps of 128",
        "  https://developers.openai.com/cookbook/examples/prompt_caching_201 (2026-11-29)",
    ]


def test_a_request_that_waits_too_long_is_cold_as_in_claude_tap_437() -> None:
    lines = judged("ordered", "6 min", "{provider: true, tokens: {$gte: 1024}}")

    assert "  it keeps a request for 300 s; the call before was 360 s ago" in lines


def test_a_model_without_a_rule_is_not_observable() -> None:
    desk = "agents: {desk: {instructions: Be kind.}}\nflow: {handoffs: {start: desk}}"
    ran = run_yaml(desk, """
turns:
  - {user: a, replies: {desk: b}}
  - {user: c, replies: {desk: d}, expect: {context: {desk: {prefix: {provider: true}}}}}
""")  # fmt: skip

    (finding,) = ran.judgement.findings
    assert finding.what.startswith("context.desk.prefix is not observable: what the provider of ")

"""The part of a request that its provider's cache reuses, by a rule of `caching.yaml`."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.providers.caching import CACHING_DATE, CachingRule, caching_rule
from simkit.trace.views import ContextView, Prefix
from simkit.trace.views.prefixes import tokens_before


def model_of(context: ContextView) -> str:
    """Return the model of a request; empty if the trace does not say it."""
    return str((context.settings or {}).get("model", ""))


def rule_of(context: ContextView) -> CachingRule | None:
    """Return the rule of a request's provider; None if its model is in no rule."""
    model = model_of(context)
    return caching_rule(model) if model else None


def reused_tokens(old: ContextView, context: ContextView, prefix: Prefix, rule: CachingRule) -> int:
    """Return how many tokens of a request are reused at least if only ``old`` came before."""
    if _is_too_old(old, context, rule):
        return 0
    tokens = prefix.tokens
    if rule.ends == "request" and prefix.messages < len(old.messages):
        tokens = 0
    elif rule.ends == "marks":
        tokens = max(_marked_fronts(old, context, prefix, rule), default=0)
    return rule.reused(tokens)


def _is_too_old(old: ContextView, context: ContextView, rule: CachingRule) -> bool:
    return bool(rule.seconds) and context.at - old.at > 1000 * rule.seconds


def _marked_fronts(
    old: ContextView, context: ContextView, prefix: Prefix, rule: CachingRule
) -> Iterator[int]:
    """Yield the tokens of each front that an earlier request marked and a mark of this one finds.

    A message counts as one block.
    """
    for messages, characters in old.marks:
        end = prefix.at if messages == prefix.messages else characters
        is_equal = messages <= prefix.messages and characters <= end
        is_near = any(
            (messages, characters) <= mark and mark[0] - messages <= rule.lookback
            for mark in context.marks
        )
        if is_equal and is_near and prefix.place not in ("model", "tools"):
            yield tokens_before(context, messages, characters)


def rule_lines(old: ContextView, context: ContextView, rule: CachingRule) -> Iterator[str]:
    """Yield what a rule says of a request, with its source."""
    steps = f", in steps of {rule.step}" if rule.step > 1 else ""
    yield f"{rule.provider} reuses fronts of {rule.least:,} tokens and more{steps}"
    if _is_too_old(old, context, rule):
        seconds = (context.at - old.at) // 1000
        yield f"  it keeps a request for {rule.seconds} s; the call before was {seconds} s ago"
    elif rule.ends == "request":
        yield "  it looks for whole earlier requests"
    elif rule.ends == "marks":
        own = len(context.marks) or "none"
        yield f"  it looks for fronts that both requests mark (`cache_control`): this one has {own}"
    yield f"  {rule.source} ({CACHING_DATE})"

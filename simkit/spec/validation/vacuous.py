"""VAL-24: claims that always hold. The list is short and certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from simkit.language.yaml import SourcePath
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, Expect
from simkit.spec.scenario.model import Scenario
from simkit.spec.validation.problems import Flaw

Domain: TypeAlias = Literal["absent", "value", "claim", "list", "count"]
"""The values that a claim can meet: none, any, absent if null, absent if an empty list, a number
from 0."""

_CLAIMS: Final[Mapping[str, Domain]] = {
    "agents": "list",
    "reply": "claim",
    "handoffs": "list",
    "tool_calls": "list",
    "events": "list",
    "logs": "list",
    "state": "value",
}
"""Claims that are always possible in a turn."""
_IN_CONTEXT: Final[Mapping[str, Domain]] = {
    "sections": "list",
    "messages": "list",
    "dropped": "list",
    "left_out": "list",
    "tools": "list",
    "tokens": "count",
}
_NEGATIONS: Final = ("$not", "$ne", "$eq", "$schema", "$keys")
"""Operators that are not searched: their operands are values, or hold the other way round."""
_BETTER: Final = "Claim the value itself, or a bound that could be missed."


def vacuous_claims(scenario: Scenario, pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield every claim that cannot fail."""
    for place, turn in enumerate(scenario.turns):
        yield from _of(turn.expect, ("turns", place, "expect"), pipeline)
    yield from _of(scenario.expect, ("expect",), pipeline)


def _of(expect: Expect, at: SourcePath, pipeline: Pipeline) -> Iterator[Flaw]:
    if not expect.model_fields_set:
        return
    for name, domain in _CLAIMS.items():
        if expect.has(name):
            yield from _certain(getattr(expect, name), (*at, name), domain)
    yield from _of_channels(expect.state, (*at, "state"), pipeline)
    for name in ("error", "interrupt"):
        if expect.has(name):
            yield from _inside(getattr(expect, name), (*at, name))
    if expect.has("findings") and not expect.findings:
        problem = "an empty list asks for nothing: other findings may be there"
        yield Flaw("VAL-24", (*at, "findings"), problem, "Remove it: unclaimed lints fail anyway.")
    for name in ("model_calls", "satisfies"):
        if expect.has(name) and not getattr(expect, name):
            yield Flaw("VAL-24", (*at, name), "nothing is named, so nothing is claimed")
    yield from _of_contexts(expect, at)
    for key, run in expect.runs.items():
        for name in run.model_fields_set:
            yield from _inside(getattr(run, name), (*at, "runs", key, name))


def _of_contexts(expect: Expect, at: SourcePath) -> Iterator[Flaw]:
    for key, context in expect.context.items():
        path = (*at, "context", key)
        for name, matcher in context.claimed().items():
            inside = (*path, name)
            if name in ("includes", "excludes"):
                if not matcher:
                    advice = f"Name what must {'not ' if name == 'excludes' else ''}be there."
                    yield Flaw("VAL-24", inside, f"an empty `{name}` claims nothing", advice)
                for place, element in enumerate(matcher or ()):
                    if name == "excludes" and _never(element, "value"):
                        problem = "no message could ever match this, so none has to be left out"
                        yield Flaw("VAL-24", (*inside, place), problem)
            elif name in CONTEXT_CLAIMS:
                yield from _certain(matcher, inside, _IN_CONTEXT.get(name, "absent"))
            else:
                yield from _certain(matcher, inside, "list")


def _of_channels(state: Any, at: SourcePath, pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield claims that a declared channel is present: it always is."""
    if not isinstance(state, Mapping):
        return
    for name, matcher in state.items():
        channel = pipeline.channels.get(name)
        is_there = channel is not None and channel.scope != "agent_run"
        if is_there and _always(matcher, "value") and not _always(matcher, "absent"):
            problem = f"channel `{name}` always has a value, so this cannot fail"
            yield Flaw("VAL-24", (*at, name), problem, _BETTER)


def _certain(matcher: Any, at: SourcePath, domain: Domain) -> Iterator[Flaw]:
    if domain != "absent" and _always(matcher, domain):
        noun = {"list": "list", "count": "number of tokens"}.get(domain, "value")
        yield Flaw("VAL-24", at, f"this holds of every {noun}, so it cannot fail", _BETTER)
    else:
        yield from _inside(matcher, at)


def _inside(matcher: Any, at: SourcePath) -> Iterator[Flaw]:
    """Yield the inner matchers that always hold, or never hold."""
    if isinstance(matcher, Mapping):
        if matcher and _always(matcher, "value") and _always(matcher, "absent"):
            yield Flaw("VAL-24", at, "this holds whether anything is there or not", _BETTER)
            return
        for key, inner in matcher.items():
            if key not in _NEGATIONS:
                yield from _inside(inner, (*at, key))
    elif isinstance(matcher, (list, tuple)):
        for place, inner in enumerate(matcher):
            yield from _inside(inner, (*at, place))


def _always(matcher: Any, domain: Domain) -> bool:
    """Return whether a matcher certainly holds for every value of a domain."""
    return (
        isinstance(matcher, Mapping)
        and bool(matcher)
        and all(_operator_always(key, operand, domain) for key, operand in matcher.items())
    )


def _operator_always(key: str, operand: Any, domain: Domain) -> bool:
    match key:
        case "$any":
            return domain in ("value", "count")
        case "$absent":
            return domain == "absent"
        case "$not":
            return _never(operand, domain)
        case "$either":
            return any(_always(element, domain) for element in operand)
        case "$all":
            return all(_always(element, domain) for element in operand)
        case "$schema":
            return domain != "absent" and not operand
        case "$len":
            return domain == "list" and _always(operand, "count")
        case "$each":
            return domain == "list" and _always(operand, "value")
        case "$gte":
            return domain == "count" and operand <= 0
        case "$gt":
            return domain == "count" and operand < 0
    return False


def _never(matcher: Any, domain: Domain) -> bool:
    """Return whether a matcher certainly holds for no value of a domain."""
    if not isinstance(matcher, Mapping):
        return domain == "absent"
    return any(_operator_never(key, operand, domain) for key, operand in matcher.items())


def _operator_never(key: str, operand: Any, domain: Domain) -> bool:
    match key:
        case "$absent":
            return domain in ("value", "count")
        case "$not":
            return _always(operand, domain)
        case "$either":
            return all(_never(element, domain) for element in operand)
        case "$all":
            return any(_never(element, domain) for element in operand)
        case "$lt" | "$lte" if domain == "count":
            return operand < 0 or (key == "$lt" and operand == 0)
    return domain == "absent"

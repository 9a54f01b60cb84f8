"""Claims on contexts: what one model call received, section by section, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simkit.expect.claims import Writer, listed, no_place
from simkit.expect.findings import Finding
from simkit.expect.observing import not_observable, unobservable_in_context
from simkit.expect.provenance import (
    around,
    circumstances,
    histories,
    left_out,
    lost,
    message_lines,
    nearest,
    shares,
    sizes_by_section,
    unshown_counts,
    unshown_lines,
    unshown_texts,
    wanted_but_left_out,
)
from simkit.expect.scope import Path, Scope
from simkit.pipeline.cast import RUN_SECTION
from simkit.scenario.claims import CONTEXT_CLAIMS, selected
from simkit.views import CallView
from simkit.words import counted


def check_contexts(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Yields what does not hold of the contexts that a scope's claims speak of."""
    for key, claims in scope.expect.context.items():
        path = (*scope.path, "context", key)
        agent, which = selected(key)
        observable: list[tuple[str, Any]] = []
        for name, matcher in claims.claimed().items():
            need = unobservable_in_context(scope, agent, name, matcher)
            if need:
                what = f"context.{key}.{name}"
                yield from not_observable(scope, writer, (*path, name), what, need, agent)
            else:
                observable.append((name, matcher))
        calls = _calls(scope, key, agent, which)
        if isinstance(calls, str):
            named = "" if agent == "*" else agent
            yield writer.finding(path, calls, turn=scope.turn, agent=named)
            continue
        for call in calls:
            for name, matcher in observable:
                yield from _check(_Claim(key, name, matcher, (*path, name), call, scope), writer)


def _calls(scope: Scope, key: str, agent: str, which: str) -> Sequence[CallView] | str:
    """The model calls that a key names, or why there are none."""
    if key == "*" or (agent == "*" and which == "*"):
        return scope.all_calls or f"no model was called {scope.words}"
    if agent == "*":
        index = int(which)
        found = [one[index] for one in scope.calls.values() if -len(one) <= index < len(one)]
        if found:
            return found
        most = max((len(one) for one in scope.calls.values()), default=0)
        return (
            f"no agent made a model call [{index}] {scope.words}: the first is [0], and nobody "
            f"made more than {most}"
        )
    calls = scope.calls.get(agent, ())
    if not calls:
        return _why_no_call(scope, agent)
    if which == "*":
        return calls
    index = int(which)
    if not -len(calls) <= index < len(calls):
        made = counted(len(calls), "model call")
        return f"agent {agent!r} made {made} {scope.words}, {no_place(index, len(calls))}"
    return [calls[index]]


def _why_no_call(scope: Scope, agent: str) -> str:
    what = f"agent {agent!r} made no model call {scope.words}"
    facts = scope.pipeline.agents.get(agent)
    if facts is not None and facts.is_function:
        return f"{what}: it is a Python function"
    mine = [run for run in scope.runs if run.agent == agent]
    if mine and all(run.status == "stood_in" for run in mine):
        return f"{what}: a `before` rule stood in for its model"
    return f"{what}; those that did: {listed(list(scope.calls))}"


class _Claim:
    """One claim on one model call."""

    __slots__ = ("call", "context", "matcher", "name", "path", "scope", "what", "who")

    def __init__(
        self, key: str, name: str, matcher: Any, path: Path, call: CallView, scope: Scope
    ) -> None:
        self.name, self.matcher, self.path = name, matcher, path
        self.call, self.context, self.scope = call, call.context, scope
        self.what = f"context.{key}.{name}"
        self.who: dict[str, Any] = {
            "turn": call.turn, "agent": call.agent, "call": call.index,
        }  # fmt: skip


def _check(claim: _Claim, writer: Writer) -> Iterator[Finding]:
    if claim.name == "includes":
        yield from _check_includes(claim, writer)
    elif claim.name == "excludes":
        yield from _check_excludes(claim, writer)
    else:
        _, matcher = writer.matchers.of(claim.matcher)
        value = _value(claim)
        if not matcher.holds(value):
            yield from _compared(claim, value, writer)


def _value(claim: _Claim) -> Any:
    context, name = claim.context, claim.name
    if name == "sections":
        return context.sections
    if name == "messages":
        return context.messages
    if name == "dropped":
        return context.dropped()
    if name == "left_out":
        return context.left_out()
    if name == "tools":
        return list(context.tools)
    if name == "tokens":
        return context.tokens
    if name == "share":
        # Whoever has nothing in a context has none of its tokens.
        return {**dict.fromkeys(("user", *claim.scope.pipeline.agents), 0.0), **shares(context)}
    if name == "settings":
        return context.settings or {}
    return context.section(name)


def _compared(claim: _Claim, value: Any, writer: Writer) -> list[Finding]:
    return writer.compare(
        claim.matcher, value, claim.path, claim.what, **claim.who,
        context=list(_explained(claim, value, writer)),
    )  # fmt: skip


def _explained(claim: _Claim, value: Any, writer: Writer) -> Iterator[str]:
    """Lines that say why a claim on a context does not hold."""
    context, name = claim.context, claim.name
    is_section = name not in CONTEXT_CLAIMS
    if is_section and not len(value):
        yield f"section {name} made nothing; those that did: {listed(context.sections)}"
    elif is_section or name == "messages":
        subject = f"section {name}" if is_section else "the context"
        yield from message_lines(f"{subject} holds {counted(len(value), 'message')}", value)
    if is_section:
        yield from unshown_counts(context, name, claim.scope)
        if not len(value) and name != RUN_SECTION:
            yield from circumstances(claim.call, claim.scope)
    if name == "dropped":
        verb = "were" if len(value) > 1 else "was"
        yield from message_lines(f"{len(value) or 'nothing'} {verb} left out", value)
    elif name == "left_out":
        yield from unshown_lines(value)
    elif name in ("messages", "sections") or name in histories(context):
        drops = context.dropped()
        yield from wanted_but_left_out(claim.matcher, value, drops, writer)
        yield from left_out(drops)
    elif name == "tokens":
        sizes = [f"{section} {size}" for section, size in sizes_by_section(context).items()]
        yield f"tokens by section: {listed(sizes)}"
    elif name == "share":
        found = [f"{who} {share:.2f}" for who, share in value.items() if share]
        yield f"shares: {listed(found)}"


def _check_includes(claim: _Claim, writer: Writer) -> Iterator[Finding]:
    for place, wanted in enumerate(claim.matcher):
        key, matcher = writer.matchers.of(wanted)
        if writer.search.occurs(claim.context, key, matcher):
            continue
        messages = claim.context.messages
        drops = [drop for drop in claim.context.dropped() if matcher.holds(drop.message)]
        by = list(dict.fromkeys(drop.by for drop in drops))
        unshown = list(unshown_texts(claim.context, matcher))
        title = f"the context holds {counted(len(messages), 'message')}"
        yield writer.finding(
            (*claim.path, place), f"{claim.what}[{place}] matches no message", **claim.who,
            differences=[] if drops or unshown else nearest(matcher, messages),
            context=[*lost(drops), *unshown, *message_lines(title, messages)],
            fix=_let_in(claim, by[0], writer.is_code) if by else "",
        )  # fmt: skip


def _let_in(claim: _Claim, by: str, is_code: bool) -> str:
    where = "that the code applies for" if is_code else "in the recipe of"
    return f"Change `{by}` {where} {claim.call.agent!r}, or the claim."


def _check_excludes(claim: _Claim, writer: Writer) -> Iterator[Finding]:
    for place, unwanted in enumerate(claim.matcher):
        key, matcher = writer.matchers.of(unwanted)
        found = writer.search.first(claim.context, key, matcher)
        if found is None:
            continue
        yield writer.finding(
            (*claim.path, place), f"{claim.what}[{place}] matches a message", **claim.who,
            context=[f"{_shower(found.section)} shows {around(found, unwanted)}"],
            fix=_keep_out(claim, found.section, found.role),
        )  # fmt: skip


def _shower(section: str) -> str:
    """Names what shows a message; contexts of code have no sections unless they are told."""
    return f"section {section}" if section else "the context"


def _keep_out(claim: _Claim, section: str, role: str) -> str:
    agent = claim.call.agent
    if not section and role == "system":
        return f"Take it out of the instructions of {agent!r}, or correct the claim."
    if section == "run":
        return "The run itself said or heard it: correct its tools or handoffs, or the claim."
    if section in histories(claim.context):
        return f"Filter it out of the history of {agent!r}, or correct the claim."
    return f"Take it out of section `{section}` of {agent!r}, or correct the claim."

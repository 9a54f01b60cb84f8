"""Claims on contexts: the messages of one model call, by section, and the items left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from simkit.checks.choosing import (
    Check,
    Claim,
    Group,
    Looked,
    calls_of_run,
    check_chosen,
    looked_at,
    meant_agent,
    which_words,
)
from simkit.checks.claims import Writer, listed, no_place
from simkit.checks.findings import Finding
from simkit.checks.observing import not_observable, unobservable_in_context
from simkit.checks.provenance import (
    around,
    circumstances,
    distance_of_nearest,
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
from simkit.checks.scope import Scope, scope_of_turn
from simkit.core.messages import UNMADE, NoShare
from simkit.core.text import counted
from simkit.language.matching import compile_matcher
from simkit.language.yaml import Document
from simkit.spec.pipeline.agents import RUN_SECTION
from simkit.spec.pipeline.root_names import keys_in
from simkit.spec.scenario.claims import (
    ALL_AGENTS,
    CONTEXT_CLAIMS,
    EVERY,
    SOME,
    Selector,
    claimed_polarity,
    selected,
)
from simkit.spec.scenario.model import Scenario
from simkit.trace.views import CallView, View


def check_contexts(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Yield the failing claims on contexts of a scope."""
    for key, claims in scope.expect.context.items():
        path = (*scope.path, "context", key)
        selector = selected(key)
        agent = selector.agent
        observable: list[tuple[str, Any]] = []
        claimed = claims.claimed()
        if selector.run is None and scope.can_observe("sections"):
            observable += claimed.items()  # No claim on a context needs more.
            claimed = {}
        for name, matcher in claimed.items():
            need = unobservable_in_context(scope, selector, name, matcher)
            if need:
                title = f"context.{key}.{name}"
                yield from not_observable(scope, writer, (*path, name), title, need, agent)
            else:
                observable.append((name, matcher))
        groups = groups_of_calls(scope, selector)
        yield from check_chosen(key, path, observable, groups, _CALLS, scope, writer)


def unheld_elsewhere(scope: Scope, writer: Writer) -> Iterator[tuple[str, str]]:
    """Yield the calls for which a claim on the first one would fail, with the claim."""
    for key, claims in scope.expect.context.items():
        selector = selected(key)
        groups = groups_of_calls(scope, selector)
        if selector.which or isinstance(groups, str):
            continue
        for name, matcher in claims.claimed().items():
            is_seen = not unobservable_in_context(scope, selector, name, matcher)
            if not is_seen or not claimed_polarity(name, matcher).affirms:
                continue
            for group in groups:
                for call in group.items[1:]:
                    looked = Looked(call, matcher, False)
                    claim = Claim(key, name, matcher, (), looked, group, scope)
                    if not _holds(claim, writer):
                        yield call.id, f"{_title(claim)} is of `{group.name(group.items[0])}`"


def groups_of_calls(scope: Scope, selector: Selector) -> list[Group[CallView]] | str:
    """Return the model calls that a key selects, by agent; or why there are none."""
    if selector.agent != ALL_AGENTS:
        group = _group(scope, selector.agent, selector)
        return group if isinstance(group, str) else [group]
    if not scope.calls:
        return f"no model was called {scope.words}"
    all_groups = [_group(scope, agent, selector) for agent in scope.calls]
    groups = [group for group in all_groups if not isinstance(group, str)]
    if groups:
        return groups
    if selector.run is not None:
        return f"no agent made a model call in its run [{selector.run}] {scope.words}"
    most = max(len(calls) for calls in scope.calls.values())
    return (
        f"no agent made a model call [{selector.place}] {scope.words}: the first is [0], and "
        f"nobody made more than {most}"
    )


def _group(scope: Scope, agent: str, selector: Selector) -> Group[CallView] | str:
    if agent not in scope.calls:
        return _why_no_call(scope, agent)
    group = Group(agent, scope.calls[agent])
    if selector.run is not None:
        chosen = calls_of_run(scope, agent, selector.run)
        if isinstance(chosen, str):
            return chosen
        group = chosen
    index, size = selector.place, len(group.items)
    if index is not None and not -size <= index < size:
        count = counted(size, "model call")
        where = "" if group.run is None else f"in its run [{group.run}] "
        return f"agent {agent!r} made {count} {where}{scope.words}, {no_place(index, size)}"
    return group


def _why_no_call(scope: Scope, agent: str) -> str:
    subject = f"agent {agent!r} made no model call {scope.words}"
    facts = scope.pipeline.agents.get(agent)
    if facts is not None and facts.is_function:
        return f"{subject}: it is a Python function"
    mine = [run for run in scope.runs if run.agent == agent]
    if mine and all(run.status == "stood_in" for run in mine):
        return f"{subject}: a `before` rule stood in for its model"
    nearest = meant_agent(agent, scope.pipeline, scope.runs, scope.all_calls)
    return f"{subject}; those that did: {listed(list(scope.calls))}{nearest}"


def _title(claim: Claim[CallView]) -> str:
    """Return the claim's name in findings."""
    return f"context.{claim.key}.{claim.name}"


def _fields(claim: Claim[CallView]) -> dict[str, Any]:
    """Return the place fields of a finding."""
    return {"turn": claim.item.turn, "agent": claim.item.agent, "call": claim.item.index}


def _which(claim: Claim[CallView], writer: Writer) -> Iterator[str]:
    """Yield a line that says which of several calls the claim concerns."""

    polarity = claimed_polarity(claim.name, claim.source_matcher)
    matcher = claim.looked.matcher if claim.looked.is_denial else claim.source_matcher

    def holds(call: CallView) -> bool:
        return _holds(replace(claim, looked=Looked(call, matcher, False)), writer)

    yield from which_words(
        selected(claim.key), polarity, claim.looked, claim.group, claim.scope, holds
    )


def _holds(claim: Claim[CallView], writer: Writer) -> bool:
    """Return whether a claim holds."""
    if claim.name in ("includes", "excludes"):
        affirms = claim.name == "includes"
        context, search = claim.item.context, writer.search
        return all(search.occurs(context, compile_matcher(m)) is affirms for m in claim.matcher)
    return writer.holds(claim.matcher, _value(claim))


def _distance(claim: Claim[CallView], writer: Writer) -> float:
    """Return the distance of a context from a claim; 0 if it holds."""
    if claim.name in ("includes", "excludes"):
        affirms = claim.name == "includes"
        context, search = claim.item.context, writer.search
        matchers = map(compile_matcher, claim.matcher)
        wrong = [matcher for matcher in matchers if search.occurs(context, matcher) is not affirms]
        if not affirms:
            return len(wrong)
        return sum(distance_of_nearest(matcher, context.messages) for matcher in wrong)
    return compile_matcher(claim.matcher).distance(_value(claim))


def _check(claim: Claim[CallView], writer: Writer) -> Iterable[Finding]:
    name, context = claim.name, claim.looked.item.context
    if context.hidden and name not in _SENT_WITH_MESSAGES:
        return _check_half(claim, writer)
    if name == "includes":
        return _check_includes(claim, writer)
    if name == "excludes":
        return _check_excludes(claim, writer)
    if name == "handoffs" and context.handoffs is None:
        return (_unnamed_targets(claim, writer),)
    value = _value(claim)
    return () if writer.holds(claim.matcher, value) else _compared(claim, value, writer)


_SENT_WITH_MESSAGES: Final = ("tools", "handoffs", "settings")
"""Claims on parts of a request that are complete even if the provider keeps earlier messages."""


def _check_half(claim: Claim[CallView], writer: Writer) -> Iterator[Finding]:
    """Yield the failing claims on a context of which the provider keeps a part."""
    if claim.name in ("includes", "excludes"):
        check = _check_includes if claim.name == "includes" else _check_excludes
        findings = [*check(claim, writer)]
        if bool(findings) is (claim.name == "excludes"):
            yield from findings
            return
    yield writer.finding(
        claim.path,
        f"{_title(claim)} is not observable: the provider adds "
        f"{claim.item.context.hidden!r} to this context, and no request shows it",
        **_fields(claim),
        fix="Claim what the request itself sends with `includes`, or send it whole.",
    )


def _unnamed_targets(claim: Claim[CallView], writer: Writer) -> Finding:
    return writer.finding(
        claim.path,
        f"{_title(claim)} is not observable: a tool offered passes control to the agent "
        "that an argument names, and its schema does not say which agents that may be",
        **_fields(claim),
        fix="Give the argument an `enum` of agents, or claim `tools`.",
    )


def _value(claim: Claim[CallView]) -> Any:
    context, name = claim.item.context, claim.name
    if name == "sections":
        return context.sections
    if name == "messages":
        return context.sectioned()
    if name == "dropped":
        return context.dropped()
    if name == "left_out":
        return context.left_out()
    if name == "tools":
        return list(context.tools)
    if name == "handoffs":
        return list(context.handoffs or ())
    if name == "tokens":
        return context.tokens
    if name == "share":
        # An agent or section without messages has the share 0.
        names = dict.fromkeys(("user", *claim.scope.pipeline.agents), NoShare(0.0))
        values = {**names, **shares(context)}
        for _, key in keys_in(claim.source_matcher, ()):
            values.setdefault(key, NoShare(0.0))
        return values
    if name == "settings":
        return context.settings or {}
    # A section without messages is an empty list, and absent.
    return context.section(name) or UNMADE


def _compared(claim: Claim[CallView], value: Any, writer: Writer) -> list[Finding]:
    return writer.compare(
        claim.matcher,
        value,
        claim.path,
        _title(claim),
        **_fields(claim),
        context=[*_which(claim, writer), *_explained(claim, value, writer)],
        several=_several_values(claim, value),
    )


def _several_values(claim: Claim[CallView], value: Any) -> bool:
    """Return whether the claim has other actual values in other calls."""
    selector = selected(claim.key)
    if selector.agent == ALL_AGENTS or selector.which in (EVERY, SOME):
        return True
    polarity = claimed_polarity(claim.name, claim.source_matcher)
    others = looked_at(selector, polarity, claim.source_matcher, claim.group)
    return any(_value(replace(claim, looked=other)) != value for other in others)


def _explained(claim: Claim[CallView], value: Any, writer: Writer) -> Iterator[str]:
    """Yield lines that explain why a claim on a context fails."""
    context, name = claim.item.context, claim.name
    is_section = name not in CONTEXT_CLAIMS
    if is_section and not len(value):
        yield f"section {name} made nothing; those that did: {listed(context.sections)}"
    elif is_section or name == "messages":
        subject = f"section {name}" if is_section else "the context"
        yield from message_lines(f"{subject} holds {counted(len(value), 'message')}", value)
    if is_section:
        yield from unshown_counts(context, name, claim.scope)
        if not len(value) and name != RUN_SECTION:
            yield from circumstances(claim.item, claim.scope)
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
        shares_text = [f"{agent} {share:.2f}" for agent, share in value.items() if share]
        yield f"shares: {listed(shares_text)}"


def _check_includes(claim: Claim[CallView], writer: Writer) -> Iterator[Finding]:
    context = claim.looked.item.context
    for place, expected in enumerate(claim.looked.matcher):
        matcher = compile_matcher(expected)
        if writer.search.occurs(context, matcher):
            continue
        if writer.is_quiet:
            yield writer.finding(claim.path, "")
            continue
        messages = context.messages
        drops = [drop for drop in context.dropped() if matcher.holds(drop.message)]
        by = list(dict.fromkeys(drop.by for drop in drops))
        unshown = list(unshown_texts(context, matcher))
        title = f"the context holds {counted(len(messages), 'message')}"
        yield writer.finding(
            (*claim.path, place),
            f"{_title(claim)}[{place}] matches no message",
            **_fields(claim),
            differences=[] if drops or unshown else nearest(matcher, messages),
            context=[
                *_which(claim, writer),
                *lost(drops),
                *unshown,
                *message_lines(title, messages),
            ],
            fix=_let_in(claim, by[0], writer.is_code) if by else "",
        )


def _let_in(claim: Claim[CallView], by: str, is_code: bool) -> str:
    where = "that the code applies for" if is_code else "in the recipe of"
    return f"Change `{by}` {where} {claim.item.agent!r}, or the claim."


def _check_excludes(claim: Claim[CallView], writer: Writer) -> Iterator[Finding]:
    context = claim.looked.item.context
    for place, unwanted in enumerate(claim.looked.matcher):
        match = writer.search.first(context, compile_matcher(unwanted))
        if match is None:
            continue
        yield writer.finding(
            (*claim.path, place),
            f"{_title(claim)}[{place}] matches a message",
            **_fields(claim),
            context=[
                f"{_shower(match.section)} shows {around(match, unwanted)}",
                *_which(replace(claim, source_matcher=(unwanted,)), writer),
            ],
            fix=_keep_out(claim, match.section, match.role),
        )


def _shower(section: str) -> str:
    """Return who shows a message; contexts of code have no sections unless a file assigns them."""
    return f"section {section}" if section else "the context"


def _keep_out(claim: Claim[CallView], section: str, role: str) -> str:
    agent = claim.item.agent
    if not section and role == "system":
        return f"Remove it from the instructions of {agent!r}, or correct the claim."
    if section == "run":
        return "It is the run's own message: correct its tools or handoffs, or the claim."
    if section in histories(claim.item.context):
        return f"Filter it out of the history of {agent!r}, or correct the claim."
    return f"Remove it from section `{section}` of {agent!r}, or correct the claim."


_CALLS: Final[Check[CallView]] = Check(claimed_polarity, _holds, _check, _distance)


def claims_unheld_elsewhere(
    scenario: Scenario, document: Document, view: View
) -> dict[str, list[str]]:
    """Return model call to the claims that concern the first call, and would fail for it.

    A report shows them beside its context, so that nobody takes a claim on the first call for one
    on all.
    """
    writer = Writer(document)
    unheld: dict[str, list[str]] = {}
    for place, turn in enumerate(scenario.turns[: len(view.turns)]):
        scope = scope_of_turn(view.turns[place], place, turn.expect, view)
        for call, claim in unheld_elsewhere(scope, writer):
            unheld.setdefault(call, []).append(claim)
    return unheld

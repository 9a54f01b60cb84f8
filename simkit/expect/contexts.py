"""Claims on contexts: what one model call received, section by section, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from simkit.expect.choosing import (
    Group,
    Looked,
    calls_of_run,
    first_of_each,
    looked_at,
    one_is_enough,
    which_words,
)
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
from simkit.messages import UNMADE
from simkit.pipeline.cast import RUN_SECTION
from simkit.scenario.claims import CONTEXT_CLAIMS
from simkit.scenario.selecting import ALL_AGENTS, EVERY, SOME, Selector, claimed_polarity, selected
from simkit.views import CallView, ContextView
from simkit.words import counted


def check_contexts(scope: Scope, writer: Writer) -> Iterator[Finding]:
    """Yields what does not hold of the contexts that a scope's claims speak of."""
    for key, claims in scope.expect.context.items():
        path = (*scope.path, "context", key)
        selector = selected(key)
        agent = selector.agent
        observable: list[tuple[str, Any]] = []
        for name, matcher in claims.claimed().items():
            need = unobservable_in_context(scope, selector, name, matcher)
            if need:
                what = f"context.{key}.{name}"
                yield from not_observable(scope, writer, (*path, name), what, need, agent)
            else:
                observable.append((name, matcher))
        groups = groups_of_calls(scope, selector)
        if isinstance(groups, str):
            named = "" if agent == ALL_AGENTS else agent
            yield writer.finding(path, groups, turn=scope.turn, agent=named)
            continue
        for group in groups:
            if one_is_enough(selector):
                yield from _check_some(key, path, observable, group, scope, writer)
                continue
            claimed = _claims(key, path, observable, group, scope)
            found = (finding for claim in claimed for finding in _check(claim, writer))
            yield from first_of_each(found, selector)


def _claims(
    key: str,
    path: Path,
    claims: Sequence[tuple[str, Any]],
    group: Group[CallView],
    scope: Scope,
) -> Iterator[_Claim]:
    """Yields what is held against what, call by call."""
    selector = selected(key)
    by_call: dict[str, list[_Claim]] = {call.id: [] for call in group.items}
    for name, matcher in claims:
        at = (*path, name)
        for looked in looked_at(selector, claimed_polarity(name, matcher), matcher, group):
            by_call[looked.item.id].append(_Claim(key, name, matcher, at, looked, group, scope))
    for found in by_call.values():
        yield from found


def unheld_elsewhere(scope: Scope, writer: Writer) -> Iterator[tuple[str, str]]:
    """Yields the calls of which a claim on the first one would not hold, with the claim."""
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
                    claim = _Claim(key, name, matcher, (), looked, group, scope)
                    if not _holds(claim, writer):
                        yield call.id, f"{claim.what} is of `{group.name(group.items[0])}`"


def _check_some(
    key: str,
    path: Path,
    claims: Sequence[tuple[str, Any]],
    group: Group[CallView],
    scope: Scope,
    writer: Writer,
) -> Iterator[Finding]:
    """Yields the finding that no call holds all claims; of the call that comes nearest."""
    nearest: list[Finding] = []
    for call in group.items:
        looked = [Looked(call, matcher, False) for _, matcher in claims]
        wanted = [
            _Claim(key, name, one.matcher, (*path, name), one, group, scope)
            for (name, _), one in zip(claims, looked, strict=True)
        ]
        if all(_holds(claim, writer) for claim in wanted):
            return
        found = [finding for claim in wanted for finding in _check(claim, writer)]
        if not nearest or len(found) < len(nearest):
            nearest = found
    several = counted(len(group.items), "model call")
    for first in nearest[:1]:
        line = f"no one of {several} of {group.agent!r} holds all that is claimed; nearest is "
        place = f"`{group.agent}{group.within}[{_place(group, first)}]`"
        yield replace(first, context=(line + place, *first.context))


def _place(group: Group[CallView], finding: Finding) -> int:
    return next(
        place for place, call in enumerate(group.items)
        if (call.turn, call.index) == (finding.turn, finding.call)
    )  # fmt: skip


def groups_of_calls(scope: Scope, selector: Selector) -> list[Group[CallView]] | str:
    """Returns the model calls that a key speaks of, by agent; or why there are none."""
    if selector.agent != ALL_AGENTS:
        group = _group(scope, selector.agent, selector)
        return group if isinstance(group, str) else [group]
    if not scope.calls:
        return f"no model was called {scope.words}"
    found = [_group(scope, agent, selector) for agent in scope.calls]
    groups = [group for group in found if not isinstance(group, str)]
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
    calls = scope.calls.get(agent, ())
    if not calls:
        return _why_no_call(scope, agent)
    group = Group(agent, calls)
    if selector.run is not None:
        chosen = calls_of_run(scope, agent, selector.run)
        if isinstance(chosen, str):
            return chosen
        group = chosen
    index, size = selector.place, len(group.items)
    if index is not None and not -size <= index < size:
        made = counted(size, "model call")
        where = "" if group.run is None else f"in its run [{group.run}] "
        return f"agent {agent!r} made {made} {where}{scope.words}, {no_place(index, size)}"
    return group


def _why_no_call(scope: Scope, agent: str) -> str:
    what = f"agent {agent!r} made no model call {scope.words}"
    facts = scope.pipeline.agents.get(agent)
    if facts is not None and facts.is_function:
        return f"{what}: it is a Python function"
    mine = [run for run in scope.runs if run.agent == agent]
    if mine and all(run.status == "stood_in" for run in mine):
        return f"{what}: a `before` rule stood in for its model"
    return f"{what}; those that did: {listed(list(scope.calls))}"


class _Claim(NamedTuple):
    """One claim on one model call."""

    key: str
    name: str
    written: Any
    """The whole claim, of which a call may be held against what it denies only."""
    path: Path
    looked: Looked[CallView]
    group: Group[CallView]
    scope: Scope

    @property
    def matcher(self) -> Any:
        """What is held against the call."""
        return self.looked.matcher

    @property
    def call(self) -> CallView:
        """The call that is looked at."""
        return self.looked.item

    @property
    def context(self) -> ContextView:
        """What the call received."""
        return self.call.context

    @property
    def what(self) -> str:
        """What the claim is called in findings."""
        return f"context.{self.key}.{self.name}"

    @property
    def who(self) -> dict[str, Any]:
        """Where a finding is."""
        return {"turn": self.call.turn, "agent": self.call.agent, "call": self.call.index}


def _which(claim: _Claim, writer: Writer) -> Iterator[str]:
    """Yields a line that says which of several calls were looked at."""

    polarity = claimed_polarity(claim.name, claim.written)
    wanted = claim.looked.matcher if claim.looked.is_denial else claim.written

    def holds(call: CallView) -> bool:
        return _holds(claim._replace(looked=Looked(call, wanted, False)), writer)

    yield from which_words(
        selected(claim.key), polarity, claim.looked, claim.group, claim.scope, holds
    )


def _holds(claim: _Claim, writer: Writer) -> bool:
    """Whether a claim holds; says nothing else."""
    if claim.name in ("includes", "excludes"):
        wanted = claim.name == "includes"
        pairs = (writer.matchers.of(one) for one in claim.matcher)
        return all(writer.search.occurs(claim.context, *pair) is wanted for pair in pairs)
    return writer.matchers.of(claim.matcher)[1].holds(_value(claim))


def _check(claim: _Claim, writer: Writer) -> Iterator[Finding]:
    if claim.context.hidden and claim.name not in _SENT:
        yield from _check_half(claim, writer)
    elif claim.name == "includes":
        yield from _check_includes(claim, writer)
    elif claim.name == "excludes":
        yield from _check_excludes(claim, writer)
    elif claim.name == "handoffs" and claim.context.handoffs is None:
        yield _unnamed_targets(claim, writer)
    else:
        _, matcher = writer.matchers.of(claim.matcher)
        value = _value(claim)
        if not matcher.holds(value):
            yield from _compared(claim, value, writer)


_SENT: Final = ("tools", "handoffs", "settings")
"""What a request itself says, whatever of its messages the provider keeps."""


def _check_half(claim: _Claim, writer: Writer) -> Iterator[Finding]:
    """Yields what is known of a context of which the provider keeps a part."""
    if claim.name in ("includes", "excludes"):
        check = _check_includes if claim.name == "includes" else _check_excludes
        found = [*check(claim, writer)]
        if bool(found) is (claim.name == "excludes"):
            yield from found
            return
    yield writer.finding(
        claim.path, f"{claim.what} is not observable: the provider adds {claim.context.hidden!r} "
        "to this context, and no request shows it",
        **claim.who, fix="Claim what the request itself sends with `includes`, or send it whole.",
    )  # fmt: skip


def _unnamed_targets(claim: _Claim, writer: Writer) -> Finding:
    return writer.finding(
        claim.path, f"{claim.what} is not observable: a tool offered passes control to the agent "
        "that an argument names, and its schema does not say which agents that may be",
        **claim.who, fix="Give the argument an `enum` of agents, or claim `tools`.",
    )  # fmt: skip


def _value(claim: _Claim) -> Any:
    context, name = claim.context, claim.name
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
        # Whoever has nothing in a context has none of its tokens.
        return {**dict.fromkeys(("user", *claim.scope.pipeline.agents), 0.0), **shares(context)}
    if name == "settings":
        return context.settings or {}
    # A section that made no message is an empty list, and absent.
    return context.section(name) or UNMADE


def _compared(claim: _Claim, value: Any, writer: Writer) -> list[Finding]:
    return writer.compare(
        claim.matcher, value, claim.path, claim.what, **claim.who,
        context=[*_which(claim, writer), *_explained(claim, value, writer)],
        several=_several_values(claim, value),
    )  # fmt: skip


def _several_values(claim: _Claim, value: Any) -> bool:
    """Whether calls that the claim is also held against found something else."""
    selector = selected(claim.key)
    if selector.agent == ALL_AGENTS or selector.which in (EVERY, SOME):
        return True
    polarity = claimed_polarity(claim.name, claim.written)
    others = looked_at(selector, polarity, claim.written, claim.group)
    return any(_value(claim._replace(looked=one)) != value for one in others)


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
            context=[
                *_which(claim, writer), *lost(drops), *unshown, *message_lines(title, messages),
            ],
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
            context=[
                f"{_shower(found.section)} shows {around(found, unwanted)}",
                *_which(claim._replace(written=(unwanted,)), writer),
            ],
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

"""Claims on contexts: the messages of one model call, by section, and the items left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from simkit.checks.cache_reuse import model_of, reused_tokens, rule_lines, rule_of
from simkit.checks.claims import FindingBuilder, index_error, listed, unobservable_in_context
from simkit.checks.findings import Finding, Scope
from simkit.checks.provenance import (
    NEAREST_MAX,
    around,
    circumstances,
    distance_of_nearest,
    histories,
    left_out,
    lost,
    message_lines,
    message_text,
    nearest,
    sizes_by_section,
    unshown_counts,
    unshown_lines,
    unshown_texts,
    wanted_but_left_out,
)
from simkit.checks.selection import Claim, Group, ItemChecks, index_is_in, meant_agent, ran_text
from simkit.core.messages import UNMADE, Message, NoShare
from simkit.core.text import counted, short
from simkit.language.matching import FAR, Matcher, compile_matcher
from simkit.language.paths import walk
from simkit.spec.pipeline.agents import RUN_SECTION
from simkit.spec.pipeline.root_names import keys_in
from simkit.spec.scenario.claims import ALL_AGENTS, CONTEXT_CLAIMS, SOME, Selector
from simkit.trace.views import CallView, ContextView, ToolView, View, prefix_of, run_ids, shows_past

CALLS_MAX: Final = 200
"""The number of model calls, the last ones, that are searched for a missing message."""
_LISTS = ("includes", "excludes")
"""Claims that are lists of matchers of messages."""


class ContextChecks(ItemChecks[CallView]):
    """The checks of claims on the contexts of model calls."""

    family = "context"
    noun = "model call"

    def groups(self, scope: Scope, selector: Selector) -> list[Group[CallView]] | str:
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
            f"no agent made a model call [{selector.item_index}] {scope.words}: the first is [0], "
            f"and no agent made more than {most}"
        )

    def unobservable(self, scope: Scope, selector: Selector, name: str, matcher: Any) -> str:
        return unobservable_in_context(scope, selector, name, matcher)

    def value(self, claim: Claim[CallView]) -> Any:
        kind = CONTEXT_CLAIMS.get(claim.name)
        if kind is None or kind.read is None:
            # A section without messages is an empty list, and absent.
            return claim.item.context.section(claim.name) or UNMADE
        value = kind.read(claim.item.context)
        if claim.name == "prefix" and value is not None:
            return value | _reuse(claim.item.context, claim.source_matcher)
        if claim.name != "share":
            return value
        # An agent or section without messages has the share 0.
        names = ("user", *claim.scope.pipeline.agents)
        claimed = dict.fromkeys((key for _, key in keys_in(claim.source_matcher, ())), NoShare(0.0))
        shares = {**dict.fromkeys(names, NoShare(0.0)), **value}
        return {**shares, **{key: none for key, none in claimed.items() if key not in shares}}

    def holds(self, claim: Claim[CallView], builder: FindingBuilder) -> bool:
        if claim.name == "prefix" and claim.item.context.before is None:
            return claim.selector.which != SOME
        if claim.name in _LISTS:
            return not self._wrong(claim, builder)
        return super().holds(claim, builder)

    def distance(self, claim: Claim[CallView], builder: FindingBuilder) -> float:
        if claim.name not in _LISTS:
            return super().distance(claim, builder)
        wrong = self._wrong(claim, builder)
        if claim.name == "excludes":
            return len(wrong)
        messages = claim.item.context.messages
        return sum(distance_of_nearest(compile_matcher(matcher), messages) for matcher in wrong)

    def _wrong(self, claim: Claim[CallView], builder: FindingBuilder) -> list[Any]:
        """Return the matchers of `includes` or `excludes` that do not hold."""
        affirms, context = claim.name == "includes", claim.item.context
        return [
            matcher
            for matcher in claim.matcher
            if builder.search.occurs(context, compile_matcher(matcher)) is not affirms
        ]

    def findings(self, claim: Claim[CallView], builder: FindingBuilder) -> Iterable[Finding]:
        name, context = claim.name, claim.item.context
        if context.hidden and not (name in CONTEXT_CLAIMS and CONTEXT_CLAIMS[name].is_in_request):
            return self._check_hidden(claim, builder)
        if name in _LISTS:
            return self._check_list(claim, builder)
        if name == "handoffs" and context.handoffs is None:
            return (_unnamed_targets(claim, builder),)
        if name == "prefix" and context.before is None:
            return _check_first(claim, builder)
        if name == "prefix" and _asks_provider(claim.source_matcher) and rule_of(context) is None:
            return (_unknown_provider(claim, builder),)
        value = self.value(claim)
        if builder.holds(claim.matcher, value):
            return ()
        return builder.compare(
            claim.matcher,
            value,
            claim.path,
            _title(claim),
            **_fields(claim),
            context=[*self.which(claim, builder), *_explained(claim, value, builder)],
            many=self.has_other_values(claim, value),
        )

    def _check_hidden(self, claim: Claim[CallView], builder: FindingBuilder) -> Iterator[Finding]:
        """Yield the failing claims on a context of which the provider keeps a part."""
        if claim.name in _LISTS:
            findings = [*self._check_list(claim, builder)]
            if bool(findings) is (claim.name == "excludes"):
                yield from findings
                return
        yield builder.finding(
            claim.path,
            f"{_title(claim)} is not observable: the provider adds "
            f"{claim.item.context.hidden!r} to this context, and no request shows it",
            **_fields(claim),
            fix="Claim what the request itself sends with `includes`, or send it whole.",
        )

    def _check_list(self, claim: Claim[CallView], builder: FindingBuilder) -> Iterator[Finding]:
        is_included = claim.name == "includes"
        return (self._check_includes if is_included else self._check_excludes)(claim, builder)

    def _check_includes(self, claim: Claim[CallView], builder: FindingBuilder) -> Iterator[Finding]:
        context = claim.item.context
        for index, expected in enumerate(claim.matcher):
            matcher = compile_matcher(expected)
            if builder.search.occurs(context, matcher):
                continue
            messages = context.messages
            drops = [drop for drop in context.dropped() if matcher.holds(drop.message)]
            by = list(dict.fromkeys(drop.by for drop in drops))
            unshown = list(unshown_texts(context, matcher))
            near = [] if drops or unshown else nearest(matcher, messages)
            why_missing = [] if drops or unshown or near else missing_lines(claim, matcher, builder)
            title = f"the context holds {counted(len(messages), 'message')}"
            yield builder.finding(
                (*claim.path, index),
                f"{_title(claim)}{_element(claim, index)} matches no message",
                **_fields(claim),
                differences=near,
                context=[
                    *self.which(claim, builder),
                    *lost(drops),
                    *unshown,
                    *why_missing,
                    *message_lines(title, messages),
                ],
                fix=_let_in(claim, by[0], builder.is_code) if by else "",
            )

    def _check_excludes(self, claim: Claim[CallView], builder: FindingBuilder) -> Iterator[Finding]:
        context = claim.item.context
        for index, unwanted in enumerate(claim.matcher):
            match = builder.search.first(context, compile_matcher(unwanted))
            if match is None:
                continue
            yield builder.finding(
                (*claim.path, index),
                f"{_title(claim)}{_element(claim, index)} matches a message",
                **_fields(claim),
                context=[
                    f"{_shower(match.section)} shows {around(match, unwanted)}",
                    *self.which(replace(claim, source_matcher=(unwanted,)), builder),
                ],
                fix=_keep_out(claim, match.section, match.role),
            )


_CHECKS = ContextChecks()


def check_contexts(scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    """Yield the failing claims on contexts of a scope."""
    return _CHECKS.check(scope, builder)


def _group(scope: Scope, agent: str, selector: Selector) -> Group[CallView] | str:
    if agent not in scope.calls:
        return _why_no_call(scope, agent)
    group = Group(agent, scope.calls[agent])
    if selector.run is not None:
        chosen = _calls_of_run(scope, agent, selector.run)
        if isinstance(chosen, str):
            return chosen
        group = chosen
    index, size = selector.item_index, len(group.items)
    if index is not None and not index_is_in(index, group.items):
        count = counted(size, "model call")
        where = "" if group.run is None else f"in its run [{group.run}] "
        return f"agent {agent!r} made {count} {where}{scope.words}, {index_error(index, size)}"
    return group


def _calls_of_run(scope: Scope, agent: str, run: int) -> Group[CallView] | str:
    """Return the model calls of an agent's run at an index, or why there are none."""
    calls = scope.calls.get(agent, ())
    runs = run_ids(agent, scope.runs, calls)
    if not runs:
        nearest_name = meant_agent(agent, scope.pipeline, scope.runs, scope.all_calls)
        return f"agent {agent!r} did not run {scope.words}{nearest_name}"
    if not index_is_in(run, runs):
        return ran_text(agent, len(runs), run, scope)
    index = run % len(runs)
    calls_found = [call for call in calls if call.run == runs[index]]
    if not calls_found:
        return f"agent {agent!r} made no model call in its run [{index}] {scope.words}"
    return Group(agent, calls_found, index)


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


def _element(claim: Claim[CallView], index: int) -> str:
    """Return which of several matchers of a list fails, as its path says it."""
    return f"[{index}]" if len(claim.matcher) > 1 else ""


def _fields(claim: Claim[CallView]) -> dict[str, Any]:
    """Return the place fields of a finding."""
    return {"turn": claim.item.turn, "agent": claim.item.agent, "call": claim.item.index}


def _check_first(claim: Claim[CallView], builder: FindingBuilder) -> Iterator[Finding]:
    """Yield that a claim on prefixes judges nothing, if no call that it selects has one before."""
    agent, scope = claim.selector.agent, claim.scope
    calls = scope.all_calls if agent == ALL_AGENTS else scope.calls[agent]
    is_one = claim.selector.item_index is not None
    if is_one or not any(call.context.before for call in calls):
        yield builder.finding(
            claim.path,
            f"{_title(claim)} judges nothing: no call before this one of {claim.item.agent!r} in "
            "the session, with which its request could begin",
            **_fields(claim),
            fix="Claim it in a later turn, or on a later call.",
        )


def _unnamed_targets(claim: Claim[CallView], builder: FindingBuilder) -> Finding:
    return builder.finding(
        claim.path,
        f"{_title(claim)} is not observable: a tool offered passes control to the agent "
        "that an argument names, and its schema does not say which agents that may be",
        **_fields(claim),
        fix="Give the argument an `enum` of agents, or claim `tools`.",
    )


def _section_explained(claim: Claim[CallView], value: Any) -> Iterator[str]:
    """Yield what a section holds; if it holds nothing, why that may be."""
    context, name = claim.item.context, claim.name
    if len(value):
        yield from message_lines(f"section {name} holds {counted(len(value), 'message')}", value)
    else:
        yield f"section {name} made nothing; those that did: {listed(context.sections)}"
    yield from unshown_counts(context, name, claim.scope)
    if not len(value) and name != RUN_SECTION:
        yield from circumstances(claim.item, claim.scope)


def _explained(claim: Claim[CallView], value: Any, builder: FindingBuilder) -> Iterator[str]:
    """Yield lines that explain why a claim on a context fails."""
    context, name = claim.item.context, claim.name
    if name not in CONTEXT_CLAIMS:
        yield from _section_explained(claim, value)
    elif name == "messages":
        yield from message_lines(f"the context holds {counted(len(value), 'message')}", value)
    if name == "dropped":
        verb = "were" if len(value) > 1 else "was"
        yield from message_lines(f"{len(value) or 'nothing'} {verb} left out", value)
    elif name == "left_out":
        yield from unshown_lines(value)
    elif name in ("messages", "sections") or name in histories(context):
        drops = context.dropped()
        yield from wanted_but_left_out(claim.matcher, value, drops, builder)
        yield from left_out(drops)
    elif name == "tokens":
        sizes = [f"{section} {size}" for section, size in sizes_by_section(context).items()]
        yield f"tokens by section: {listed(sizes)}"
    elif name == "prefix":
        yield from _end_of_prefix(context, claim.source_matcher)
    elif name == "share":
        shares_text = [f"{agent} {share:.2f}" for agent, share in value.items() if share]
        yield f"shares: {listed(shares_text)}"


def _asks_provider(matcher: Any) -> bool:
    """Return whether a claim on prefixes is about what the provider reuses: `provider: true`."""
    return any(path[-1:] == ("provider",) and value is True for path, value in walk(matcher))


def _reuse(context: ContextView, matcher: Any) -> dict[str, Any]:
    """Return what a claim measures instead of the front if it is about the provider's part."""
    rule, prefix, old = rule_of(context), prefix_of(context), context.before
    is_asked = _asks_provider(matcher)
    if not is_asked or rule is None or prefix is None or old is None:
        return {"provider": is_asked}
    tokens = reused_tokens(old, context, prefix, rule)
    return {"provider": True, "tokens": tokens, "share": tokens / prefix.total}


def _unknown_provider(claim: Claim[CallView], builder: FindingBuilder) -> Finding:
    model = model_of(claim.item.context)
    which = f"model {model!r}" if model else "this model, which the trace does not name,"
    return builder.finding(
        claim.path,
        f"{_title(claim)} is not observable: what the provider of {which} reuses is in no rule",
        **_fields(claim),
        fix="Leave `provider` out, and claim the front itself.",
    )


def _end_of_prefix(context: ContextView, matcher: Any) -> Iterator[str]:
    """Yield where a request first differs from the one before, and what the claim counts of it."""
    prefix, old, rule = prefix_of(context), context.before, rule_of(context)
    assert prefix is not None
    assert old is not None
    if rule is not None and _asks_provider(matcher):
        yield from rule_lines(old, context, rule)
    behind = counted(prefix.total - prefix.tokens, "token")
    if not prefix.place:
        yield f"it begins with all that the call before was sent, and {behind} are new"
        return
    yield f"the first difference from the call before is in {prefix.where}: {behind} behind it"
    yield f"  before: {prefix.before or 'nothing'}"
    yield f"  now:    {prefix.after or 'nothing'}"


def _let_in(claim: Claim[CallView], by: str, is_code: bool) -> str:
    where = "that the code applies for" if is_code else "in the recipe of"
    return f"Change `{by}` {where} {claim.item.agent!r}, or the claim."


def _shower(section: str) -> str:
    """Return who shows a message; contexts of code have no sections unless a file assigns them."""
    return f"section {section}" if section else "the context"


def _memory_lines(
    call: CallView, holders: Sequence[CallView], builder: FindingBuilder, view: View
) -> Iterator[str]:
    """Yield that code keeps no conversation, where only calls of earlier turns have a message."""
    are_earlier = all(other.turn < call.turn for other in holders)
    if builder.is_code and are_earlier and not shows_past(view):
        yield (
            "no agent is sent anything of an earlier turn: the code keeps no conversation "
            "between turns (a LangGraph graph needs a checkpointer for it)"
        )


def missing_lines(
    claim: Claim[CallView], matcher: Matcher, builder: FindingBuilder
) -> Iterator[str]:
    """Yield why a wanted message of the run is not in a context: who else is sent it, or nobody."""
    call, view = claim.item, claim.scope.view
    calls = [*view.calls.values()][-CALLS_MAX:]
    holders = [other for other in calls if builder.search.occurs(other.context, matcher)]
    places = dict.fromkeys(
        f"{other.agent} in turn {other.turn}"
        for other in holders
        if (other.agent, other.turn) != (call.agent, call.turn)
    )
    if places:
        yield f"what it wants is sent to {listed([*places])}, but not in this call"
    if holders:
        yield from _memory_lines(call, holders, builder, view)
        return
    messages = [*view.messages.values()]
    message_there = next(
        (message for message in reversed(messages) if matcher.holds(message)), None
    )
    if message_there is None:
        yield from _failed_tool_lines(view.turns[call.turn - 1].tools)
        yield _nearest_line(messages[-NEAREST_MAX:], matcher)
    elif call.reply is not None and message_there.number >= call.reply.number > 0:
        yield f"what it wants comes later: {message_text(message_there)}"
    else:
        reads = builder.is_code or bool(histories(call.context))
        why = "" if reads else f": no section of {call.agent!r} reads the conversation"
        yield f"what it wants is sent to nobody{why}: {message_text(message_there)}"


def _failed_tool_lines(tools: Sequence[ToolView]) -> Iterator[str]:
    for tool in tools:
        if tool.error:
            yield (
                f"tool {tool.tool!r} failed in this turn: {short(tool.error, 120)}; "
                f"`tool_results: {{{tool.tool}: …}}` answers in its place"
            )


def _nearest_line(messages: Sequence[Message], matcher: Matcher) -> str:
    closest = min(messages, key=matcher.distance, default=None)
    if closest is None or matcher.distance(closest) >= FAR:
        return "no message of the run is near what it wants"
    return f"nearest in the run, and not sent here: {message_text(closest)}"


def _keep_out(claim: Claim[CallView], section: str, role: str) -> str:
    agent = claim.item.agent
    if not section and role == "system":
        return f"Remove it from the instructions of {agent!r}, or correct the claim."
    if section == "run":
        return "It is the run's own message: correct its tools or handoffs, or the claim."
    if section in histories(claim.item.context):
        return f"Filter it out of the history of {agent!r}, or correct the claim."
    return f"Remove it from section `{section}` of {agent!r}, or correct the claim."

"""Lints on the front of requests, which providers' caches reuse while it stays the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, lint
from simkit.core.text import counted
from simkit.providers.caching import LEAST, caching_rule
from simkit.trace import events as e
from simkit.trace.views import CallView, ContextView
from simkit.trace.views.contexts import INSTRUCTIONS
from simkit.trace.views.prefixes import Prefix, prefix_between, repeated_behind

LOOKS_MAX: Final = 20
"""How many broken prefixes of an agent are looked at; a later one costs what the last one did."""
GROWTH: Final = 1.25
"""How much larger a request is at the next look after one that found no cost: it reads all."""


class _Front(NamedTuple):
    """The front of an agent's request, as far as its event says it."""

    call: str
    tools: tuple[Any, ...]
    opening: tuple[tuple[str, str], ...]
    """Role and text of the messages before its history."""


class _Break:
    """The requests of an agent that begin otherwise than the one before, in one part."""

    def __init__(self, call: CallView, prefix: Prefix) -> None:
        self.call, self.prefix = call, prefix
        """The first such call."""
        self.first = self.last = self.tokens = self.calls = 0
        """The tokens that the first one, the last one, and all could have reused."""

    def add(self, tokens: int) -> None:
        """Add a call."""
        self.first, self.last = self.first or tokens, tokens
        self.tokens, self.calls = self.tokens + tokens, self.calls + 1


class _Prefixes:
    """The fronts of a run's requests, and the breaks that cost something."""

    def __init__(self) -> None:
        self.fronts: dict[tuple[str, str, str], _Front] = {}
        """Session, agent and model to the last front: another model has another cache."""
        self.sizes: dict[int, int] = {}
        """The definition of a tool to its characters."""
        self.firsts: dict[str, int] = {}
        """Stream to its first settled message."""
        self.look_from: dict[str, float] = {}
        """Agent to the tokens of the first request at which a look is worth while again."""
        self.breaks: dict[tuple[str, str], _Break] = {}
        """Agent and part of its requests to what breaks there."""


@lint("CTX-20", e.ToolDefined)
def _note_size(event: e.ToolDefined, facts: Facts) -> None:
    size = len(event.description) + len(str(event.parameters))
    facts.notes_of(_Prefixes).sizes[event.number] = size


@lint("CTX-20", e.ContextBuilt)
def _note_break(event: e.ContextBuilt, facts: Facts) -> None:
    """Note a request that does not begin as the agent's last one to the same model."""
    notes = facts.notes_of(_Prefixes)
    model = str((event.settings or {}).get("model", ""))
    key = event.session, event.agent, model
    last, tools = notes.fronts.get(key), event.definitions or event.tools
    opening = last.opening if event.base and last is not None else _opening_of(event.parts, notes)
    notes.fronts[key] = _Front(event.call, tools, opening)
    if last is None or (tools == last.tools and opening == last.opening):
        return
    size = event.tokens + sum(notes.sizes.get(number, 0) for number in event.definitions)
    if size < max(_least(model), notes.look_from.get(event.agent, 0)):
        return
    calls = facts.view.calls
    if not _weigh(calls[event.call], calls[last.call].context, model, notes):
        notes.look_from[event.agent] = size * GROWTH


def _opening_of(parts: Iterable[e.Part], notes: _Prefixes) -> tuple[tuple[str, str], ...]:
    """Return the messages before a history, and the number of the first one in that."""
    opening: list[tuple[str, str]] = []
    for part in parts:
        if type(part) is e.HistoryPart:
            return (*opening, (part.stream, str(_first_in(part, notes.firsts))))
        assert type(part) is e.InlinePart
        opening.append((part.message.role, part.message.content))
    return tuple(opening)


def _first_in(part: e.HistoryPart, firsts: dict[str, int]) -> int:
    """Return the first message of a stream, which a window may leave out."""
    if part.restarts:
        firsts.pop(part.stream, None)
    if part.stream not in firsts and part.kept:
        firsts[part.stream] = part.kept[0]
    return firsts.get(part.stream, part.tail[0] if part.tail else 0)


def _weigh(call: CallView, old: ContextView, model: str, notes: _Prefixes) -> bool:
    """Add a request whose front changed, if a cache could have reused what comes again.

    Return whether it could.
    """
    prefix = prefix_between(old, call.context)
    earlier = notes.breaks.get((call.agent, prefix.place))
    if earlier is not None and earlier.calls >= LOOKS_MAX:
        earlier.add(earlier.last)
        return True
    lost = _lost(call.context, old, prefix, model)
    if lost:
        key = call.agent, prefix.place
        notes.breaks.setdefault(key, earlier or _Break(call, prefix)).add(lost)
    return bool(lost)


def _lost(context: ContextView, old: ContextView, prefix: Prefix, model: str) -> int:
    """Return the tokens that could have been reused if the difference stood at the end.

    A window, a summary or a section of the recipe changes the messages on purpose. Then only what
    comes again of tools and instructions counts, if the difference is there.
    """
    again = repeated_behind(old, context, prefix)
    is_front = prefix.place in ("tools", INSTRUCTIONS)
    behind = again.of_front if is_front else 0
    if again.is_intact and (is_front or _is_put_in_front(context, prefix)):
        behind = again.tokens
    rule, least = caching_rule(model), _least(model)
    before, after = prefix.tokens, prefix.tokens + behind
    lost = (after if after >= least else 0) - (before if before >= least else 0)
    return lost if lost >= (LEAST if rule is None else min(LEAST, least)) else 0


def _is_put_in_front(context: ContextView, prefix: Prefix) -> bool:
    """Return whether code put a message before all that was said."""
    messages = context.messages
    before = (messages[index].role for index in range(prefix.messages))
    is_made = prefix.section == "" and messages[prefix.place_index].role in ("system", "user")
    return is_made and all(role == "system" for role in before)


def _least(model: str) -> int:
    rule = caching_rule(model)
    return LEAST if rule is None else rule.least


@lint("CTX-20", e.RunFinished, when=_Prefixes)
def broken_prefix(event: e.RunFinished, facts: Facts) -> Iterable[Hit]:
    """CTX-20: an agent's next request in a conversation begins as the one before.

    The first difference is in its tools, its instructions or a message that code put before all
    that was said; behind it come, again, at least as many tokens as a provider's cache takes (1,024
    for unknown models). Windows, summaries and declared sections change a front on purpose. Calls
    to another model are not compared. Seen in home-generative-agent#617 and PraisonAI#1808.
    """
    for (agent, part), each in facts.notes_of(_Prefixes).breaks.items():
        prefix, call = each.prefix, each.call
        noun = "a message" if part == "messages" else part
        times = "" if each.calls == 1 else (
            f"; in {each.calls} calls that are {each.tokens:,} tokens"
        )  # fmt: skip
        problem = (
            f"agent {agent!r} is sent other {noun} in turn {call.turn} than in its previous "
            f"call; no prompt cache can reuse {counted(each.first, 'token')} after "
            f"{prefix.where}: {prefix.before!r} became {prefix.after!r}{times}"
        )
        yield Hit.at("CTX-20", call, problem, tokens=each.tokens, calls=each.calls, place=part)

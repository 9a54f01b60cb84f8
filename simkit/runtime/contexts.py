"""The context that all model calls of one run begin with."""

from __future__ import annotations

from typing import Any

from simkit.core.messages import Message
from simkit.runtime.activation import Activation
from simkit.runtime.context.assembly import NOT_SHOWN, Assembled
from simkit.runtime.history_selection import HistorySelection
from simkit.runtime.turn import Turn
from simkit.trace.events import Made, Unshown


def build(run: Activation) -> HistorySelection:
    """Build a run's context; return the histories that it shows.

    For a plain recipe this is `Assembly.build` without what such a recipe cannot have. The message
    that the run answers is a text without a value then, and not empty.
    """
    turn, agent, handoff = run.turn, run.agent, run.spec.handoff
    current = turn.user
    if handoff is not None and handoff.query is not None:
        current = Message("user", handoff.query, turn=turn.number), 0, 0
    run.reading = reading = HistorySelection(
        turn, agent.name, run.id, handoff, run.values or {}, run.branch, run.log, current
    )
    recipe = agent.recipe
    if recipe is None or not turn.is_plain or not current[0].content:
        run.built = agent.assembly.build(run.root(), reading)
        return reading
    # Parts that are not there stay None until the end.
    parts: list[Any] = [*recipe.parts]
    tokens, omit = recipe.tokens, ""
    left_out: tuple[Unshown, ...] = ()
    if recipe.current is not None:
        place, shown_as = recipe.current
        message, number, _ = current
        if number:
            if shown_as not in turn.users_parts:
                turn.make_users_part(shown_as)
            part, omit = turn.users_parts[shown_as], message.id
        else:
            part = _query(turn, message, *shown_as)
        parts[place] = part
        tokens += part.tokens
    for index, (place, _) in enumerate(recipe.histories):
        history = reading.history(index, omit)
        if history is not None:
            parts[place] = history.shown_part
            tokens += history.tokens
    if handoff is not None and recipe.handoffs:
        for place, entry in recipe.handoffs[::-1]:
            if handoff.payload is None and entry.section.is_payload:
                continue
            put = entry.make(run.root(), reading, NOT_SHOWN)
            parts.insert(place, put.part)
            tokens += put.tokens
            left_out = (*put.left_out, *left_out)
    if None in parts:
        parts = [part for part in parts if part is not None]
    run.built = Assembled(parts, tokens, left_out)
    return reading


def _query(turn: Turn, message: Message, section: str, role: str) -> Made:
    """Return a handoff's query as a section shows it."""
    tokens = turn.compiled.count(message.content)
    text = Message(role, message.content, turn=message.turn, section=section)
    return Made(section, text, tokens)

"""The context that all model calls of one run begin with."""

from __future__ import annotations

from simkit.core.messages import Message
from simkit.runtime.activation import Activation
from simkit.runtime.context.assembly import NOT_SHOWN, Assembled, PlainRecipe
from simkit.runtime.history_selection import HistorySelection
from simkit.runtime.turn import Turn
from simkit.trace.events import Made, Part, Unshown


def build(run: Activation) -> HistorySelection:
    """Build a run's context; return the histories that it shows."""
    turn, agent, handoff = run.turn, run.agent, run.spec.handoff
    current = turn.user
    if handoff is not None and handoff.query is not None:
        current = Message("user", handoff.query, turn=turn.number), 0, 0
    reading = HistorySelection(
        turn, agent.name, run.id, handoff, run.root["state"], run.branch, run.log, current
    )
    run.reading = reading
    recipe = agent.recipe
    if recipe is not None and turn.is_plain and current[0].content:
        run.built = _plain(run, recipe, reading)
    else:
        run.built = agent.assembly.build(run.root, reading)
    return reading


def _plain(run: Activation, recipe: PlainRecipe, reading: HistorySelection) -> Assembled:
    """Build the context of a plain recipe: its histories, and the message that the run answers.

    It is `Assembly.build` without what such a recipe cannot have. The user's message is a text
    without a value; it and a handoff's query are not empty.
    """
    turn = run.turn
    # Parts that are not there stay None until the end.
    parts: list[Part | None] = [*recipe.parts]
    tokens, omit = recipe.tokens, ""
    if recipe.current is not None:
        place, shown_as = recipe.current
        message, number, _ = reading.current
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
    left_out: tuple[Unshown, ...] = ()
    if recipe.handoffs and run.spec.handoff is not None:
        for place, entry in reversed(recipe.handoffs):
            put = entry.make(run.root, reading, NOT_SHOWN)
            parts.insert(place, put.part)
            tokens += put.tokens
            left_out = (*put.left_out, *left_out)
    return Assembled([part for part in parts if part is not None], tokens, left_out)


def _query(turn: Turn, message: Message, section: str, role: str) -> Made:
    """Return a handoff's query as a section shows it."""
    tokens = turn.compiled.count(message.content)
    text = Message(role, message.content, turn=message.turn, section=section)
    return Made(section, text, tokens)

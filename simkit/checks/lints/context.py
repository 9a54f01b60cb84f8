"""Lints on one context: its instructions, its budget, its current message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from simkit.checks.findings import Hit
from simkit.checks.lints.runner import reads
from simkit.checks.lints.screening import Screen
from simkit.trace import events as e
from simkit.trace.views import MadePart, ShownPart, View

WARNED_SHARE: Final = 0.8
"""The share of a budget from which CTX-10 warns."""
SHOWN_MAX: Final = 60
"""Characters of instructions that a hit shows."""


class WrongInstructions:
    """CTX-03: a context has exactly one instructions block, and it is the calling agent's.

    A block is the message of section ``instructions`` (alone, or as its piece of a shared message),
    or, if the recipe renames that section, a made message that carries an agent's name. Its text
    must contain the declared instructions; a title or a note around them is allowed, and
    instructions with references (``${…}``) are not compared. An agent without instructions must
    have no block. Later calls of a run repeat its first parts and are not checked again.

    In contexts of code, the lint finds a block of another agent if an adapter knows both agents'
    instructions word for word: a history that was handed over with the first agent's prompt in it.
    It reports each pair of a turn once. Seen in pydantic-ai#885 and #1032.
    """

    id = "CTX-03"

    def __init__(self) -> None:
        self._reported: set[tuple[int, str, str]] = set()
        """Turn and agent, with the agent whose instructions it got."""

    @reads(e.ContextBuilt)
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check the first context of each run."""
        agents = view.pipeline.agents
        if event.base or event.agent not in agents:
            return ()
        facts = agents[event.agent]
        if "sections" not in view.pipeline.observes:
            return self._of_another(event, facts.instructions, view)
        if _is_plain(event.parts, event.agent, facts.instructions):
            return ()
        call = view.calls[event.call]
        declared = facts.instructions
        wrong = _wrong_in(_instructions_in(event.parts), event.agent, declared)
        if not wrong:
            return ()
        problem = f"agent {event.agent!r} {wrong} in turn {event.turn}"
        return (Hit(self.id, problem, event.turn, event.agent, call.index),)

    def _of_another(self, event: e.ContextBuilt, own: str, view: View) -> Iterable[Hit]:
        """Search for other agents' instructions among the system messages of code."""
        if not _is_whole(own):
            return ()
        call = view.calls[event.call]
        blocks: set[str] = set()
        for message in call.context.messages:
            if message.role == "system":
                blocks |= {message.content.strip(), *message.content.strip().split("\n\n")}
        hits = []
        for name, facts in view.pipeline.agents.items():
            text = facts.instructions.strip()
            key = (event.turn, event.agent, name)
            if name == event.agent or not _is_whole(text) or text in own or key in self._reported:
                continue
            if text not in blocks:
                continue
            self._reported.add(key)
            own_text = "" if own.strip() in blocks else ", and not its own"
            problem = (
                f"agent {event.agent!r} is sent the instructions of {name!r}{own_text} in turn "
                f"{event.turn}: {_excerpt(text)}"
            )
            hits.append(Hit(self.id, problem, event.turn, event.agent, call.index))
        return hits


def _is_whole(instructions: str) -> bool:
    """Return whether an agent's instructions are known word for word."""
    return bool(instructions) and "${" not in instructions and "{" not in instructions


def _is_plain(parts: Sequence[e.Part], agent: str, declared: str) -> bool:
    """Return whether the instructions appear as usual: once, word for word, alone."""
    blocks = 0
    for part in parts:
        if type(part) is e.Made:
            message = part.message
            if part.section == "instructions":
                if part.pieces or message.content != declared or message.agent != agent:
                    return False
                blocks += 1
            elif part.pieces or message.agent is not None:
                return False
    return blocks == 1


def _wrong_in(blocks: Sequence[tuple[str | None, str]], agent: str, declared: str) -> str:
    """Return what is wrong with the instructions blocks; empty if nothing is."""
    if not declared:
        return f"has no instructions, but is sent {_excerpt(blocks[0][1])}" if blocks else ""
    if not blocks:
        return "is sent no instructions"
    if len(blocks) > 1:
        return f"is sent {len(blocks)} instructions blocks"
    ((author, text),) = blocks
    if author is not None and author != agent:
        return f"is sent the instructions of {author!r}"
    if text == declared or declared in text or "${" in declared:
        return ""
    return f"is sent other instructions than its own: {_excerpt(text)}"


def _instructions_in(parts: Sequence[e.Part]) -> list[tuple[str | None, str]]:
    """Return agent and text of every instructions block."""
    blocks: list[tuple[str | None, str]] = []
    for part in parts:
        if type(part) is not e.Made:
            continue
        message = part.message
        if part.pieces:
            named = [p.content for p in part.pieces if p.section == "instructions"]
            if not named and message.agent is not None and not message.id:
                named = [message.content]
            blocks += [(message.agent, text) for text in named if text]
        elif message.content and (part.section == "instructions" or _is_spoken_for(part)):
            blocks.append((message.agent, message.content))
    return blocks


def _is_spoken_for(part: e.Made) -> bool:
    """Return whether a made message carries an agent's name.

    Only instructions and summaries do.
    """
    message = part.message
    return message.agent is not None and not message.id and part.section != "summary"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[: SHOWN_MAX - 1]}…")


class OverBudget:
    """CTX-10: a context stays within its token budget; a warning from 80 % of it on.

    The budget is ``limits: context_tokens``. Seen in agent-framework#7744.
    """

    id = "CTX-10"

    @reads(e.ContextBuilt, has=("budget",))
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check every context that has a budget."""
        budget, tokens = event.budget, event.tokens
        if not budget or tokens < WARNED_SHARE * budget:
            return ()
        is_over = tokens > budget
        problem = (
            f"agent {event.agent!r} is sent {tokens} tokens in turn {event.turn}, "
            f"{'more than' if is_over else f'{100 * tokens // budget} % of'} its budget of {budget}"
        )
        index = view.calls[event.call].index
        data = {"tokens": tokens, "budget": budget}
        return (
            Hit(self.id, problem, event.turn, event.agent, index, "E" if is_over else "W", data),
        )


class CurrentMessageTwice:
    """CTX-16: the user's current message appears at most once in a context.

    The message is recognized by its id, so that a user may repeat the same words. Pieces of one
    shared message count once. Later calls of a run repeat its first parts and are not checked
    again. From reference system 1, where ``messages`` and ``current_message`` both contained it.
    """

    id = "CTX-16"

    def __init__(self, screen: Screen | None = None) -> None:
        self.reader = screen or Screen()

    @reads(e.ContextBuilt, waits="reader.repetitive")
    def look(self, event: e.ContextBuilt, view: View) -> Iterable[Hit]:
        """Check the first context of each run: its made messages, and the current turn."""
        current = view.turns[-1].message
        if event.base or current is None or not current.id:
            return ()
        identity, turn = current.id, event.turn
        times = 0
        parts = view.calls[event.call].context.parts
        for part in parts:
            if type(part) is ShownPart:
                hi = part.hi
                if part.tail or (hi > part.lo and part.stream.entries[hi - 1].turn == turn):
                    times += _times_shown(part, identity, turn)
            elif part.of or part.message.id == identity:
                times += _is_made_of(part, identity)
        if times < 2:
            return ()
        sections: list[str] = []
        for part in parts:
            if isinstance(part, ShownPart):
                sections += [part.section] * _times_shown(part, identity, event.turn)
            elif _is_made_of(part, identity):
                sections.append(part.section)
        # Contexts of code have no sections, unless its file names them.
        through = f": through {', '.join(sections)}" if all(sections) else ""
        problem = (
            f"agent {event.agent!r} is sent the user's message {identity} {times} times "
            f"in turn {event.turn}{through}"
        )
        index = view.calls[event.call].index
        data = {"sections": sections}
        return (Hit(self.id, problem, event.turn, event.agent, index, data=data),)


def _is_made_of(part: MadePart, identity: str) -> bool:
    return part.message.id == identity or (part.of > 0 and f"m{part.of}" == identity)


def _times_shown(part: ShownPart, identity: str, turn: int) -> int:
    """Return how often the current turn's part of a history shows a message."""
    times = 0
    hi, lo = part.hi, part.lo
    if part.tail:
        for place, message in enumerate(part.tail, hi):
            if message.id == identity and place >= lo:
                times += 1
    entries = part.stream.entries
    place = hi - 1
    # A driver may settle a turn that still runs; its messages are then at the end.
    while place >= lo and entries[place].turn == turn:
        if entries[place].id == identity:
            times += 1
        place -= 1
    return times

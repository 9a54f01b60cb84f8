"""Answers to questions of agents, where a question says in which form it wants them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.core.messages import JsonValue
from simkit.explore.choices import Choices
from simkit.trace.events import Event, TurnInterrupted

YES: Final = "Yes."
"""The answer to a question that says nothing of its form."""
_NO: Final = "No."
_INBOX: Final = {"accept": "accept", "ignore": "ignore", "respond": "response", "edit": "edit"}
"""Word in ``allow_…`` of an agent inbox's request, to the type of the answer that it allows."""


def answer_to(question: JsonValue, choices: Choices) -> JsonValue:
    """Return an answer that a question permits.

    Two forms are known: requests to review calls of tools, as LangChain's middleware makes them
    (``action_requests``), and those that an agent inbox shows (a list with ``action_request``).
    """
    for part in _parts_of(question):
        if isinstance(part, Mapping) and isinstance(part.get("action_requests"), (list, tuple)):
            return {"decisions": [*_decisions(part, choices)]}
        if isinstance(part, (list, tuple)) and part and all(map(_is_of_inbox, part)):
            return [_response(request, choices) for request in part]
    return YES


def question_in(events: Sequence[Event]) -> JsonValue:
    """Return the last question that events hold; None if they hold none."""
    questions = (event.question for event in reversed(events) if type(event) is TurnInterrupted)
    return next(questions, None)


def _parts_of(value: JsonValue) -> Iterator[JsonValue]:
    """Yield a value and all values inside, the outer ones first."""
    yield value
    if isinstance(value, Mapping):
        inner: Any = value.values()
    else:
        inner = value if isinstance(value, (list, tuple)) else ()
    for part in inner:
        yield from _parts_of(part)


def _decisions(request: Mapping[str, Any], choices: Choices) -> Iterator[JsonValue]:
    allowed = {
        config.get("action_name"): config.get("allowed_decisions") or ()
        for config in request.get("review_configs") or ()
    }
    for action in request["action_requests"]:
        decisions = {
            "approve": {"type": "approve"},
            "reject": {"type": "reject", "message": _NO},
            "edit": {
                "type": "edit",
                "edited_action": {key: action.get(key) for key in ("name", "args")},
            },
        }
        names = [name for name in decisions if name in allowed.get(action.get("name"), ())]
        yield decisions[choices.one_of(names or ["approve"])]


def _is_of_inbox(request: JsonValue) -> bool:
    return isinstance(request, Mapping) and "action_request" in request


def _response(request: Mapping[str, Any], choices: Choices) -> JsonValue:
    config = request.get("config") or {}
    kinds = [kind for word, kind in _INBOX.items() if config.get(f"allow_{word}")]
    kind = choices.one_of(kinds or ["accept"])
    args = {"response": YES, "edit": request["action_request"]}
    return {"type": kind, "args": args.get(kind)}

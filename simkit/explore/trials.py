"""Trials before a campaign: whether any conversation comes to a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

import msgspec

from simkit.explore.causes import label_of
from simkit.explore.choices import SIMPLEST, ChoiceLog, TurnLog
from simkit.explore.conversations import ExploredRun

_USER_DIGITS: Final = tuple(product(range(5), range(3)))
"""The choices of who speaks first, and of what is said, that are tried."""


def first_turns_that_fail(
    first: ExploredRun, run: Callable[[ChoiceLog], ExploredRun]
) -> Sequence[ChoiceLog]:
    """Return conversations of one turn, if each one ends with the same error before a model call.

    They differ in what the user says; ``first`` is the simplest. Return none if the pipeline can be
    called.
    """
    if not _fails_at_once(first):
        return ()
    tapes = {_message_of(first): SIMPLEST}
    for user in _USER_DIGITS:
        tape = ChoiceLog((TurnLog(user=user),))
        record = run(tape)
        if not _fails_at_once(record) or {*record.causes} != {*first.causes}:
            return ()
        tapes.setdefault(_message_of(record), tape)
    return [*tapes.values()]


def _fails_at_once(record: ExploredRun) -> bool:
    is_short = len(record.turns) == 1 and not record.model_calls
    return is_short and any(label_of(cause) == "error" for cause in record.causes)


def _message_of(record: ExploredRun) -> bytes:
    return msgspec.json.encode(record.turns[0].get("user"))

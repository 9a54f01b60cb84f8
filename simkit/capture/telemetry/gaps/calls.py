"""Lines on what model calls themselves tell of parts that the file lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from simkit.capture.telemetry.recorded import RecordedTurn
from simkit.capture.telemetry.spans import Step

TEXT_MAX: Final = 60
"""The letters of a message that a line shows."""


def lines_of_call(call: Step) -> Iterator[str]:
    """Yield the gaps of a model call without which a scenario is right."""
    if call.messages is None:
        yield f"what the model was sent is not in the trace{why(call)}"
    elif call.missing:
        yield "; ".join(call.missing)
    if not all(message.content or message.calls for message in call.messages or ()):
        yield "a message that it was sent is empty, or its text was not captured"
    answer = call.answer
    if answer is not None and not (answer.content or answer.calls or call.error):
        yield "the model's reply is empty, or was not captured"


def calls_of(turns: Sequence[RecordedTurn]) -> Iterator[tuple[str, RecordedTurn, Step]]:
    """Yield each call of each turn, with its name in a line."""
    for number, turn in enumerate(turns, 1):
        counts = Counter[str]()
        for index, call in enumerate(turn.calls):
            name = f"{call.agent}[{counts[call.agent]}]" if call.agent else f"model call {index}"
            counts[call.agent] += 1
            yield f"turn {number}, {name}", turn, call


def why(call: Step) -> str:
    """Return the cause for which a part of a call is not there, as the end of a line."""
    if call.missing:
        return f": {'; '.join(call.missing)}"
    if call.failed:
        return f": {call.status.strip() or 'it failed, and its span does not say how'}"
    if not call.end:
        return ": its span did not end"
    return ": the exporter did not capture content"

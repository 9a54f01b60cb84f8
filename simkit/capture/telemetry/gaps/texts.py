"""Lines on what the texts of a file tell of others that were cut off."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from simkit.capture.telemetry.gaps.calls import TEXT_MAX
from simkit.capture.telemetry.messages import texts_in
from simkit.capture.telemetry.spans import Step, messages_of
from simkit.core.text import short


def cut_texts(steps: Sequence[Step], objects: Sequence[Any]) -> Iterator[str]:
    """Yield the texts that stand once in a file, and of which others have more."""
    counts = Counter(texts_in(objects))
    own, ordered = {text for step in steps for text in _texts_of(step) if text}, sorted(counts)
    for text in sorted(own):
        longer = next(iter(ordered[bisect_right(ordered, text) :][:1]), "")
        rest = longer.removeprefix(text)
        # Code makes longer texts of several whole ones.
        is_made = any(len(other) > 1 and other in rest for other in own)
        if counts[text] < 2 and longer.startswith(text) and not is_made:
            part, whole = short(text, TEXT_MAX), short(longer, TEXT_MAX)
            yield f"{part!r} may be cut off: elsewhere it is {whole!r}"


def _texts_of(step: Step) -> Iterator[str]:
    yield from (step.text, step.agent)
    yield step.name if step.kind in ("agent", "tool", "handoff") else ""
    for message in messages_of(step):
        yield message.content
        yield from (call.name for call in message.calls)

"""Bodies that are nearly right: one place of a good one holds something else, or it is cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

WORDS = st.sampled_from(
    ["", "type", "text", "user", "model", "tool_use", "thinking", "0", "1e400", "[", '{"a":']
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path inside a JSON value, the root's too."""
    if not isinstance(value, (dict, list)):
        return [at]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


def replaced(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    """A copy with another value at a path."""
    if not at:
        return by
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(value[at[0]], at[1:], by)
    return copy


@st.composite
def bodies(draw: st.DrawFn, good: list[Any]) -> bytes:
    """One of the good values with up to two places replaced, as JSON; or any bytes."""
    value = draw(st.sampled_from(good))
    for _ in range(draw(st.integers(0, 2))):
        value = replaced(value, draw(st.sampled_from(places(value))), draw(JSON))
    return draw(st.just(json.dumps(value).encode()) | st.binary(max_size=40))


@st.composite
def streams(
    draw: st.DrawFn, good: list[list[tuple[str, Any]]], frame: Callable[[str, Any], bytes]
) -> bytes:
    """The events of a good stream, some left out, some changed, cut anywhere."""
    events = draw(st.sampled_from(good))
    frames = []
    for name, event in events:
        if draw(st.integers(0, 9)) == 0:
            continue
        if draw(st.integers(0, 4)) == 0:
            event = replaced(event, draw(st.sampled_from(places(event))), draw(JSON))
        frames.append(frame(name, event))
    body = b"".join(frames)
    return body[: draw(st.integers(0, len(body)))] if draw(st.booleans()) else body

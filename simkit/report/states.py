"""The state after each turn: changes as a diff, and the names of unchanged channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simkit.core.text import counted
from simkit.language.json_schema import is_array
from simkit.report.diff_lines import TONES, signed
from simkit.report.wording import Paint, columns, plain, value_text, wrapped
from simkit.trace.views import TurnView, View


def state_lines(view: View, turn: int | None = None, paint: Paint = plain) -> Iterator[str]:
    """Yield the changes of each turn.

    The state at the end is the one that claims under ``state`` see: turn-scoped channels are
    cleared only afterwards, and are empty at the start of the next turn.
    """
    for turn_view in view.turns:
        if turn_view.finished and turn in (None, turn_view.number):
            yield from _turn_lines(turn_view, len(view.states) > 1, paint)
            yield ""


def _turn_lines(turn: TurnView, many_sessions: bool, paint: Paint) -> Iterator[str]:
    before, after = turn.state_before, turn.state
    changed = [name for name in after if name not in before or before[name] != after[name]]
    same = [name for name in after if name not in changed]
    session = f", session {turn.session}" if many_sessions else ""
    title = paint(f"turn {turn.number}{session}", "strong")
    yield f"{title}: {len(changed)} of {counted(len(after), 'channel')} changed"
    for name in changed:
        yield from _change_lines(name, before.get(name), after[name], paint)
    if same:
        yield from wrapped(", ".join(same), "  unchanged: ")


def _change_lines(name: str, old: Any, new: Any, paint: Paint) -> Iterator[str]:
    if _has_grown(old, new):
        yield f"  {name}: {len(old)} → {counted(len(new), 'item')}"
        for item in new[len(old) :]:
            yield from _signed("+", value_text(item), paint)
        return
    yield f"  {name}:"
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            if key in old and (key not in new or old[key] != new[key]):
                yield from _signed("-", f"{key}: {value_text(old[key])}", paint)
            if key in new and (key not in old or old[key] != new[key]):
                yield from _signed("+", f"{key}: {value_text(new[key])}", paint)
    else:
        yield from _signed("-", value_text(old), paint)
        yield from _signed("+", value_text(new), paint)


def _signed(sign: str, text: str, paint: Paint) -> Iterator[str]:
    first, *rest = wrapped(text, width=columns() - 6)
    yield f"    {signed(sign, first, paint)}"
    yield from (f"      {paint(line, TONES[sign])}" for line in rest)


def _has_grown(old: Any, new: Any) -> bool:
    return is_array(old) and is_array(new) and len(new) > len(old) and _begins(new, old)


def _begins(whole: Sequence[Any], start: Sequence[Any]) -> bool:
    return list(whole[: len(start)]) == list(start)

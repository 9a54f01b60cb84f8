"""Damages of an export, drawn by a seed: of values, kinds, clocks, and of the file itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

OTHERS: Final[list[Any]] = [
    None, 3, -1, 1.5, True, "x", "", [], {}, ["x"], [1, None], {"a": 1}, "9" * 400, "2026-13-45",
    float("inf"), "\ud800", {"stringValue": None}, {"kvlistValue": {"values": [3]}},
    {"arrayValue": 3}, {"intValue": "x"}, "[" * 5_000, "{", "[{}]", '[{"role": "user"}]',
    '[{"role": "assistant", "parts": [3]}]', '[{"role": 3, "content": {}}]', '{"messages": 3}',
]  # fmt: skip
KIND: Final = re.compile(
    r'((?:span\.kind|operation\.name|observation\.type)", "value": \{"stringValue": |"run_type": )'
    r'"\w+"|("type": )"(?:agent|function|generation|handoff)"'
)
TIME: Final = re.compile(r'("(?:start|end)(?:TimeUnixNano|_time|ed_at)": )"([^"]+)"')
NOTHING: Final = "nothing"


class Damage:
    """What was done to the lines of a file, and to which text or value of it."""

    def __init__(self, lines: Sequence[str], random: Random) -> None:
        self.lines, self.random = [*lines], random
        self.old: Any = None
        self.new: Any = None
        self.place: tuple[Any, ...] = ()
        self.kind = random.choice([*KINDS])
        KINDS[self.kind](self)

    def __str__(self) -> str:
        return f"{self.kind} {self.place}: {self.old!r:.80} is {self.new!r:.80}"

    def is_unknowable(self, text: str) -> bool:
        """Return whether nothing else in a file can tell: it is a whole export, too."""
        if self.kind == "value" and self.place[-1:] == ("error",):
            return self.new is None
        if self.new == NOTHING:  # Of the definitions of tools there is one copy.
            return isinstance(self.old, dict) and "llm.tools" in str(self.old.get("key"))
        if not isinstance(self.old, str):
            return self.old is None and isinstance(self.new, str)
        if isinstance(self.new, str) and not self.old.startswith(self.new):
            return True  # It is another text, and right by its form.
        spelt = json.dumps(self.old)[1:-1]
        copies = text.count(spelt) + ("\\" in spelt and text.count(json.dumps(spelt)[1:-1]))
        return copies < 2 and isinstance(self.new, str | list)

    def _line(self) -> int:
        return self.random.randrange(len(self.lines))

    def value(self) -> None:
        """Leave out a value, cut it off, or write another."""
        place = self._line()
        value = json.loads(self.lines[place])
        self._damage(value)
        self.lines[place] = json.dumps(value)

    def _damage(self, value: Any) -> None:
        *above, last = place = self.random.choice([*places(value)])
        around = value
        for key in above:
            around = around[key]
        self.place, self.old, self.new = (*self.place, *place), around[last], NOTHING
        inner = of_json(self.old)
        if inner and self.random.random() < 0.5:
            self._damage(inner)
            around[last] = json.dumps(inner)
            return
        is_text = isinstance(self.old, str) and len(self.old) > 1
        match self.random.choice(["gone", "other", *(["cut"] if is_text else [])]):
            case "gone":
                del around[last]
                return
            case "cut":
                self.new = self.old[: self.random.randrange(1, len(self.old))]
            case _:
                kinds = [other for other in OTHERS if other != self.old]
                self.new = self.random.choice(kinds)
        around[last] = self.new

    def unknown_kind(self) -> None:
        """Let a span be of a kind that nobody knows."""
        place = self._line()
        self.lines[place] = KIND.sub(r'\1\2"future"', self.lines[place], count=1)

    def clock(self) -> None:
        """Let the clock of one span, or of its beginning or end, be another."""
        place, by = self._line(), self.random.choice([-3_600, -5, 5, 3_600])
        which = self.random.choice(["start", "end", ""])

        def later(match: re.Match[str]) -> str:
            if which not in match[1]:
                return match[0]
            if match[2].isdigit():
                return f'{match[1]}"{int(match[2]) + by * 10**9}"'
            moved = datetime.fromisoformat(match[2]) + timedelta(seconds=by)
            return f'{match[1]}"{moved.isoformat()}"'

        self.place, self.new = (place, which), by
        self.lines[place] = TIME.sub(later, self.lines[place])

    def end_of_file(self) -> None:
        """Cut the file off after any character."""
        text = "\n".join(self.lines)
        at = self.random.randrange(1, len(text))
        self.place, self.lines = (at,), text[:at].splitlines()


KINDS: Final[dict[str, Callable[[Damage], None]]] = {
    "value": Damage.value, "unknown kind": Damage.unknown_kind, "clock": Damage.clock,
    "end of file": Damage.end_of_file,
}  # fmt: skip


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places in a value."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else inner:
        yield from places(item, (*at, key))


def of_json(text: Any) -> Any:
    """Return the list or object in a text of JSON; None for others."""
    try:
        value = json.loads(text)
    except (TypeError, ValueError):
        return None
    return value if isinstance(value, dict | list) else None

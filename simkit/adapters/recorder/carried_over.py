"""Texts of earlier scenarios of this process: one that reaches a request was carried over.

Only what a scenario's user and models say counts: what tools and files say may be the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from simkit.adapters.recorder import left_values
from simkit.adapters.recorder.left_values import Modules, modules_named
from simkit.core.messages import Message
from simkit.language.paths import leaves

LONG: Final = 16
"""The length from which a text is also found within a longer one."""


class CarriedText(NamedTuple):
    """A text of an earlier scenario in a request."""

    text: str
    scenario: str
    """The scenario that said it."""
    said_by: str
    """``user`` or ``assistant``."""


class _Process:
    """The texts that the scenarios of this process said, and the messages in their requests."""

    def __init__(self) -> None:
        self.texts: dict[str, CarriedText] = {}
        self._long: dict[str, list[str]] = {}
        """The long ones, by their beginning."""
        self.messages: set[str] = set()
        """The messages of finished scenarios."""

    def add(self, carried: CarriedText) -> None:
        """Add what a finished scenario said."""
        if carried.text not in self.texts:
            self.texts[carried.text] = carried
            if len(carried.text) >= LONG:
                self._long.setdefault(carried.text[:LONG], []).append(carried.text)

    def find_in(self, content: str) -> Iterator[str]:
        """Yield the texts that a message is, or contains."""
        if content in self.texts:
            yield content
        starts: Iterable[str] = self._long
        if len(self._long) > len(content):  # Its own parts are fewer.
            parts = (content[at : at + LONG] for at in range(len(content) - LONG + 1))
            starts = dict.fromkeys(parts)
        inner = {
            text
            for start in starts
            if start in content
            for text in self._long.get(start, ())
            if text in content and text != content
        }
        yield from sorted(inner, key=lambda text: (content.find(text), text))


_process: Final = _Process()


class ScenarioTexts:
    """The texts that one scenario says, and the messages in its requests."""

    def __init__(self, scenario: str) -> None:
        self._scenario = scenario
        self._own: Counter[str] = Counter()
        self._speakers: dict[str, str] = {}
        self._values: list[str] = []
        self._messages: set[str] = set()
        self._constant: set[str] = set()
        """Texts that the pipeline itself puts into requests, as an example of a few shots does."""
        self._reported: set[str] = set()

    def add(self, text: str, said_by: str) -> None:
        """Note what its user or a model says."""
        if text in self._messages or text in _process.messages:
            self._constant.add(text)
        self._own[text] += 1
        self._speakers.setdefault(text, said_by)

    def add_value(self, value: Any) -> None:
        """Note the texts of a value of this scenario: of given state, or of a tool's result."""
        self._values += [text for text in leaves(value) if isinstance(text, str) and text]

    def find_carried(self, messages: Sequence[Message]) -> Iterator[CarriedText]:
        """Yield the texts of earlier scenarios in a request, each once; not in tools' results."""
        contents = [message.content for message in messages if message.role != "tool"]
        for text, count in Counter(contents).items():
            if count > self._own.get(text, count):
                self._constant.add(text)
        for content in contents:
            if content not in self._messages:
                self._messages.add(content)
                yield from self._find_in(content)

    def find_in_reply(self, reply: Any) -> Iterator[CarriedText]:
        """Yield the texts of earlier scenarios in what a turn is answered with."""
        for text in leaves(reply):
            if isinstance(text, str):
                yield from self._find_in(text)

    def _find_in(self, content: str) -> Iterator[CarriedText]:
        for text in _process.find_in(content) if _process.texts else ():
            # Another run of this scenario says the same, whether or not its answers can be read.
            is_same = _process.texts[text].scenario == self._scenario
            is_own = is_same or any(text in own for own in (*self._own, *self._values))
            if not is_own and text not in self._reported:
                self._reported.add(text)
                yield _process.texts[text]

    def look_at_variables(self, modules: Modules, given: Collection[str] = ()) -> None:
        """Note what earlier scenarios have changed in the pipeline's modules and the environment.

        ``given`` are the variables of the environment that this scenario itself sets.
        """
        left_values.begin(self._scenario, modules, given)

    def end(self) -> None:
        """Let the next scenarios of this process know what this one said."""
        for text in self._own:
            if text and text not in self._constant and text not in self._reported:
                _process.add(CarriedText(text, self._scenario, self._speakers[text]))
        _process.messages |= self._messages
        left_values.end(self._scenario)


def forget_all() -> None:
    """Forget what scenarios of this process said."""
    _process.__init__()  # type: ignore[misc]
    left_values.forget_all()


def is_written_in(text: str, modules: Modules) -> bool:
    """Return whether a text is in the source of the pipeline's modules, as an example for it is."""
    escaped = text.encode("unicode_escape").decode()
    return any(
        text in source or escaped in source
        for _, module in modules_named(modules.names())
        if (source := _source(getattr(module, "__file__", None) or ""))
    )


@lru_cache(maxsize=256)
def _source(file: str) -> str:
    try:
        return Path(file).read_text("utf-8", errors="replace")
    except OSError:
        return ""

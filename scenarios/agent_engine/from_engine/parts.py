"""Mappings of a file that are asked key by key, so that what nobody asked for can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.core.errors import SourceError
from simkit.language.yaml import Document, SourcePath, text_of
from simkit.spec.fields import shown_value

_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""As YAML 1.1 reads them, in which such files are written."""


class Part:
    """The mapping ``data`` at ``path`` of a file; ``called`` is how messages name it."""

    def __init__(
        self, document: Document, path: SourcePath, called: str, data: Mapping[str, Any]
    ) -> None:
        self.document, self.path, self.called = document, path, called
        self._data = data
        self._asked: set[str] = set()
        self._left: list[tuple[int, str]] = []

    def take(self, *keys: str) -> tuple[str, Any]:
        """Returns the first of the keys that is there, with its value; `("", None)` if none is."""
        for key in keys:
            if key in self._data:
                self._asked.add(key)
                return key, self._data[key]
        return "", None

    def text(self, *keys: str) -> str:
        """Returns the text under one of the keys; empty if there is none."""
        key, value = self.take(*keys)
        if value is None:
            return ""
        return self.as_text(value, key)

    def as_text(self, value: Any, *at: str | int) -> str:
        """Returns a value that must be a text; ``at`` leads to it from here."""
        text = text_of(value)
        if text is None:
            raise self.error(f"must be a text, not {shown_value(value)}", *at)
        return text

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Returns the list of texts under the key; None if there is none."""
        _, value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(f"must be a list, not {shown_value(value)}", key)
        return tuple(self.as_text(item, key, place) for place, item in enumerate(value))

    def flag(self, key: str) -> bool:
        """Returns whether the key says yes."""
        word = self.text(key)
        found = _FLAGS.get(word.lower(), None if word else False)
        if found is None:
            raise self.error(f"must be true or false, not the text `{word}`", key)
        return found

    def one_of(self, key: str, known: tuple[str, ...]) -> str:
        """Returns one of the known words, or an empty text if the key is not there."""
        word = self.text(key)
        if word and word not in known:
            raise self.error(f"unknown {key} `{word}`", key, word=word, known=known)
        return word

    def line(self, *at: str | int) -> int:
        """Returns the line of what ``at`` leads to, or of its key."""
        place = self.document.position((*self.path, *at), key=True)
        return int(place.rsplit(":", 2)[1])

    def leave(self, what: str, *at: str | int) -> None:
        """Notes that something has no counterpart."""
        self._left.append((self.line(*at), what))

    def left_out(self) -> Iterator[tuple[int, str]]:
        """Yields the line and the sentence of what was noted or never asked for."""
        yield from self._left
        for key in self._data:
            if key not in self._asked:
                yield self.line(key), f"`{key}` of {self.called} has no counterpart: left out"

    def error(
        self, what: str, *at: str | int, word: str = "", known: tuple[str, ...] = ()
    ) -> SourceError:
        """Returns the error that says ``what`` of the value that ``at`` leads to."""
        return self.document.error((*self.path, *at), what, word=word, known=known)


def entries(document: Document, path: SourcePath, value: Any, noun: str) -> dict[str, Part]:
    """Returns the entries of a list with `id:`, or of a mapping by name, by their ids.

    Raises SourceError for an entry that is no mapping, has no id, or has another one's.
    """
    if isinstance(value, Mapping):
        return {
            name: _entry(document, (*path, name), {} if inner is None else inner, noun, name)
            for name, inner in value.items()
        }
    if value is None:
        return {}
    if not isinstance(value, list):
        raise document.error(
            path, f"must be a list of entries with `id:`, not {shown_value(value)}"
        )
    found: dict[str, Part] = {}
    for place, inner in enumerate(value):
        part = _entry(document, (*path, place), inner, noun)
        name = part.text("id", "name")
        if not name:
            raise part.error(f"{noun} {place + 1} of the list has no `id:`")
        if name in found:
            line = found[name].line()
            raise part.error(f"two {noun}s are called `{name}`; the first is on line {line}", "id")
        part.called = f"{noun} `{name}`"
        found[name] = part
    return found


def _entry(document: Document, path: SourcePath, value: Any, noun: str, name: str = "") -> Part:
    if not isinstance(value, Mapping):
        raise document.error(path, f"must be a mapping, not {shown_value(value)}")
    return Part(document, path, f"{noun} `{name}`", value)

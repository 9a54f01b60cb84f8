"""A claim against a value: the finding that says what differs, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from simkit.checks.findings import CLAIM, Difference, Finding
from simkit.checks.scope import Path
from simkit.checks.searching import Search
from simkit.core.messages import or_nothing
from simkit.core.text import counted
from simkit.language.matching import Matcher, Mismatch, compile_matcher
from simkit.language.yaml import Document, path_text

T = TypeVar("T")
DIFFERENCES_MAX: Final = 12
NAMES_MAX: Final = 12
LINES_MAX: Final = 8
_CUT: Final = "\n…"
"""How an excerpt ends that leaves out lines."""


class Matchers:
    """Matchers compiled once, however many turns claim the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, Matcher] = {}

    def of(self, matcher: Any) -> tuple[bytes, Matcher]:
        """Return a matcher compiled, with the key it is known by."""
        key = msgspec.json.encode(matcher, enc_hook=_plain_number)
        compiled = self._known.get(key)
        if compiled is None:
            compiled = self._known[key] = compile_matcher(matcher)
        return key, compiled


def _plain_number(value: Any) -> Any:
    """Encode numbers that keep their source text: two texts of one number may claim different."""
    return {"source": getattr(value, "source", str(value))}


class Writer:
    """Writes findings: knows the scenario's document, so that each says file and line.

    It keeps what claims share: matchers, and what was looked for already.
    """

    def __init__(self, document: Document, is_code: bool = False) -> None:
        """``is_code`` says whether it is code that the findings speak of: what is to be done then
        is done there."""
        self._document, self.is_code = document, is_code
        self.matchers = Matchers()
        self.search = Search()
        self.passed_over: list[Finding] = []
        """Claims that were not looked at, since the file declares what they need unseen."""

    def compare(
        self,
        matcher: Any,
        value: Any,
        path: Path,
        label: str,
        *,
        turn: int = 0,
        agent: str = "",
        call: int | None = None,
        context: Iterable[str] = (),
        fix: str = "",
        several: bool = False,
    ) -> list[Finding]:
        """Return the finding that a value does not match; nothing if it does.

        ``context`` is only read for a finding, so it may be a generator that costs something.
        ``several`` says that the claim is also held against other values, for who would accept
        the one that was found.
        """
        misses = self.misses(matcher, value)
        if not misses:
            return []
        return [
            self.finding(
                path,
                f"{label} does not match",
                turn=turn,
                agent=agent,
                call=call,
                differences=differences(misses),
                context=context,
                fix=fix,
                at=misses[0].at,
            )
        ]

    def holds(self, matcher: Any, value: Any) -> bool:
        """Report whether a whole claim holds of a value."""
        return self.matchers.of(matcher)[1].holds(or_nothing(value))

    def misses(self, matcher: Any, value: Any) -> Sequence[Mismatch]:
        """Return where a value differs from a matcher; render nothing where it does not."""
        _, compiled = self.matchers.of(matcher)
        value = or_nothing(value)
        return () if compiled.holds(value) else compiled.mismatches(value)

    def finding(
        self,
        path: Path,
        what: str,
        *,
        turn: int = 0,
        agent: str = "",
        call: int | None = None,
        differences: Sequence[Difference] = (),
        context: Iterable[str] = (),
        fix: str = "",
        at: Path = (),
        breaks: bool = False,
    ) -> Finding:
        """Return a finding at a claim; ``at`` leads further, to what inside it does not hold."""
        which = self._document.repetition(path)
        what = f"{what}, {which}" if which else what
        return Finding(
            CLAIM, "E", what, self._document.position((*path, *at)), (*path, *at), turn, agent,
            call, tuple(differences), tuple(context), self._around(path, at), fix, breaks,
        )  # fmt: skip

    def position(self, path: Path) -> str:
        """Return ``file:line:column`` of a place in the scenario."""
        return self._document.position(path)

    def excerpt(self, path: Path) -> str:
        """Return the scenario's lines at a place."""
        return self._document.excerpt(path)

    def _around(self, path: Path, at: Path) -> str:
        """The whole claim; of one too long to show, the largest part around what does not hold."""
        excerpt = ""
        for size in range(len(at) + 1):
            excerpt = self._document.excerpt((*path, *at[:size]))
            if not excerpt.endswith(_CUT):
                break
        return excerpt


def differences(misses: Sequence[Mismatch]) -> list[Difference]:
    """Return the first differences, and how many more there are."""
    lines = [
        Difference(path_text(miss.path) if miss.path else "", miss.expected, miss.actual, miss.note)
        for miss in misses[:DIFFERENCES_MAX]
    ]
    if len(misses) > DIFFERENCES_MAX:
        more = counted(len(misses) - DIFFERENCES_MAX, "more difference")
        lines.append(Difference("", "", "", f"and {more}"))
    return lines


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Return names with commas, or ``none``; of many the first."""
    if len(names) <= NAMES_MAX:
        return ", ".join(names) or "none"
    return f"{', '.join(list(names)[:NAMES_MAX])}, … ({len(names)} in all)"


def no_place(index: int, count: int) -> str:
    """Report that of so many there is none at a place, and how places are counted."""
    places_text = (
        f"the first is [0], the last [{count - 1}]" if count > 1 else "the only one is [0]"
    )
    return f"so there is no [{index}]: {places_text}"


def listing(
    title: str, items: Sequence[T], line_of: Callable[[T], str], otherwise: str
) -> Iterator[str]:
    """Yield a title and the line of each item below it; ``otherwise`` where there is none."""
    if items:
        yield from first_lines(title, [line_of(item) for item in items])
    else:
        yield otherwise


def first_lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a title and lines with their places below it; of many the first and the last."""
    yield title
    size = len(lines)
    head = size if size <= LINES_MAX else LINES_MAX - 2
    for place in range(head):
        yield f"  [{place}] {lines[place]}"
    if head < size:
        yield f"  … {size - head - 1} more"
        yield f"  [{size - 1}] {lines[-1]}"

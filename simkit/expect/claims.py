"""A claim against a value: the finding that says what differs, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.expect.findings import Difference, Finding
from simkit.expect.scope import Path
from simkit.matching import Matcher, Mismatch, compile_matcher
from simkit.source import Document, path_text

DIFFERENCES_MAX = 12


class Matchers:
    """Matchers compiled once, however many turns claim the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, Matcher] = {}

    def of(self, matcher: Any) -> tuple[bytes, Matcher]:
        """Returns a matcher compiled, with the key it is known by."""
        key = msgspec.json.encode(matcher, enc_hook=_plain_number)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = compile_matcher(matcher)
        return key, found


def _plain_number(value: Any) -> Any:
    """Encodes numbers that keep their source text: two texts of one number may claim different."""
    return {"source": getattr(value, "source", str(value))}


class Writer:
    """Writes findings: knows the scenario's document, so that each says file and line."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.matchers = Matchers()

    def compare(
        self,
        matcher: Any,
        value: Any,
        path: Path,
        what: str,
        *,
        turn: int = 0,
        agent: str = "",
        call: int | None = None,
        context: Sequence[str] = (),
    ) -> list[Finding]:
        """Returns the finding that a value does not match; nothing if it does."""
        _, compiled = self.matchers.of(matcher)
        if compiled.holds(value):
            return []
        misses = compiled.mismatches(value)
        return [
            self.finding(
                path, f"{what} does not match", turn=turn, agent=agent, call=call,
                differences=_differences(misses), context=context,
                at=misses[0].at if misses else (),
            )
        ]  # fmt: skip

    def finding(
        self,
        path: Path,
        what: str,
        *,
        turn: int = 0,
        agent: str = "",
        call: int | None = None,
        differences: Sequence[Difference] = (),
        context: Sequence[str] = (),
        fix: str = "",
        at: Path = (),
    ) -> Finding:
        """Returns a finding at a claim; ``at`` leads further, to what inside it does not hold."""
        return Finding(
            "claim", "E", what, self._document.position((*path, *at)), (*path, *at), turn, agent,
            call, tuple(differences), tuple(context), self._document.excerpt(path), fix,
        )  # fmt: skip

    def position(self, path: Path) -> str:
        """Returns ``file:line:column`` of a place in the scenario."""
        return self._document.position(path)

    def excerpt(self, path: Path) -> str:
        """Returns the scenario's lines at a place."""
        return self._document.excerpt(path)


def _differences(misses: Sequence[Mismatch]) -> list[Difference]:
    shown = [
        Difference(path_text(miss.path) if miss.path else "", miss.wanted, miss.found, miss.note)
        for miss in misses[:DIFFERENCES_MAX]
    ]
    if len(misses) > DIFFERENCES_MAX:
        more = len(misses) - DIFFERENCES_MAX
        shown.append(Difference("", "", "", f"and {more} more differences"))
    return shown


def short(text: str, most: int = 72) -> str:
    """Returns a text on one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def listed(names: Sequence[str] | Mapping[str, Any]) -> str:
    """Returns names with commas, or ``none``."""
    return ", ".join(names) or "none"

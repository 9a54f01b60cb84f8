"""The claims of a scenario's file, each at its line, with what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.findings import Finding
from simkit.language.yaml import Document
from simkit.language.yaml.nodes import SourcePath
from simkit.report.results import Result
from simkit.viewer.document import ClaimLine, difference_data

DEPTH: Final = 3
"""How far claims are separated: ``context``, its agent, its operator."""
NOT_RUN: Final = "the turn did not run"
_EXPECT: Final = "expect"


def claim_lines(document: Document, result: Result) -> list[ClaimLine]:
    """Return the claims in the order of the file; those of a run that did not end are left out."""
    failing = _by_claim(result.findings)
    skipped = _by_claim(result.passed_over)
    lines: dict[tuple[int, str], ClaimLine] = {}
    for path in _claims(document.data):
        finding = _at(path, failing)
        state = "failing" if finding is not None else "held"
        if finding is None:
            finding = _at(path, skipped)
            state = "held" if finding is None else "skipped"
        differences, reason = _detail(finding)
        if finding is None and _turn_of(path) > result.turns:
            state, reason = "skipped", NOT_RUN
        words = ".".join(map(str, path))
        line = ClaimLine(_line_of(document, path), state, words, differences, reason)
        lines[line.line, words] = line
    if result.outcome in ("skipped", "broken"):
        return [line for line in lines.values() if line.state == "failing"]
    return sorted(lines.values(), key=lambda line: line.line)


def _by_claim(findings: Sequence[Finding]) -> dict[SourcePath, Finding]:
    """Return the findings of claims by path; a lint's finding at a turn is of no claim."""
    return {finding.path: finding for finding in reversed(findings) if _EXPECT in finding.path}


def _turn_of(path: SourcePath) -> int:
    """Return the number of a claim's turn, from 1; 0 for claims on the run."""
    index = path[1] if path[0] == "turns" else -1
    assert isinstance(index, int)
    return index + 1


def _line_of(document: Document, path: SourcePath) -> int:
    """Return the line of a claim's own key, below which its value may stand."""
    return int(document.position(path, key=True).rsplit(":", 2)[1])


def _claims(data: Mapping[str, Any]) -> Iterator[SourcePath]:
    turns = data.get("turns")
    for index, turn in enumerate(turns if isinstance(turns, Sequence) else ()):
        if isinstance(turn, Mapping) and isinstance(turn.get("expect"), Mapping):
            yield from _parts(turn["expect"], ("turns", index, "expect"), DEPTH)
    if isinstance(data.get("expect"), Mapping):
        yield from _parts(data["expect"], ("expect",), DEPTH)


def _parts(value: Mapping[str, Any], path: SourcePath, depth: int) -> Iterator[SourcePath]:
    for key, part in value.items():
        inner = (*path, key)
        if isinstance(part, Mapping) and part and depth > 1:
            yield from _parts(part, inner, depth - 1)
        else:
            yield inner


def _at(path: SourcePath, findings: Mapping[SourcePath, Finding]) -> Finding | None:
    """Return the finding of a claim: at its path, below it, or at a part of it."""
    for other, finding in findings.items():
        if other and (other[: len(path)] == path or path[: len(other)] == other):
            return finding
    return None


def _detail(finding: Finding | None) -> tuple[tuple[tuple[str, str, str, str], ...], str]:
    if finding is None:
        return (), ""
    return difference_data(finding), finding.what

"""docs/reference/troubleshooting.md below its first heading, made from the catalogues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simkit.spec.explanations import Explanation, explanations

PARTS = (
    ("Claims that do not hold", "claim", ""),
    ("The run and its script", "lint", "RUN-"),
    ("Contexts", "lint", "CTX-"),
    ("Handoffs", "lint", "HND-"),
    ("State", "lint", "STA-"),
    ("Flow", "lint", "FLW-"),
    ("Requests to providers", "lint", "NET-"),
    ("Files", "validation", "VAL-"),
    ("Errors", "error", ""),
)
"""Heading, kind and the beginning of the ids."""


def sections() -> str:
    """Return every section of the page."""
    return "\n".join(line for part in PARTS for line in _section(*part))


def _section(heading: str, kind: str, prefix: str) -> Iterator[str]:
    yield f"## {heading}\n"
    for value in explanations().values():
        if value.kind == kind and value.id.startswith(prefix):
            yield "\n".join(_entry(value))


def _entry(explanation: Explanation) -> Sequence[str]:
    severity = f" ({explanation.severity})" if explanation.severity else ""
    lines = [f"### {explanation.title}\n"]
    if explanation.message:
        lines += [f"> {explanation.message}\n"]
    lines += [
        f"- **Rule**{severity}: {explanation.rule}.",
        f"- **Usual cause**: {explanation.cause}",
        f"- **Fix**: {explanation.fix}",
    ]
    if explanation.fix_in_code:
        lines.append(f"- **Fix in code**: {explanation.fix_in_code}")
    return [*lines, ""]

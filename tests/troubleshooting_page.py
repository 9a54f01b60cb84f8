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
    for found in explanations().values():
        if found.kind == kind and found.id.startswith(prefix):
            yield "\n".join(_entry(found))


def _entry(found: Explanation) -> Sequence[str]:
    severity = f" ({found.severity})" if found.severity else ""
    lines = [f"### {found.title}\n"]
    if found.message:
        lines += [f"> {found.message}\n"]
    lines += [
        f"- **Rule**{severity}: {found.rule}.",
        f"- **Usual cause**: {found.cause}",
        f"- **Fix**: {found.fix}",
    ]
    if found.fix_in_code:
        lines.append(f"- **Fix in code**: {found.fix_in_code}")
    return [*lines, ""]

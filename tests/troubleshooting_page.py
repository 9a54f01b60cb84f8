"""The table of docs/reference/troubleshooting.md, made from the catalogue of messages."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.spec.lint_catalogue import Explanation, explanations

PARTS = {"claim": "Claims that fail", "error": "Errors"}
"""Kinds of messages that have no page of their own, and their headings."""


def sections() -> str:
    """Return every section of the page."""
    return "\n".join(line for kind in PARTS for line in _section(kind))


def _section(kind: str) -> Iterator[str]:
    yield f"## {PARTS[kind]}\n\n| message | usual cause | what to do |\n|---|---|---|"
    yield from (_row(value) for value in explanations().values() if value.kind == kind)
    yield ""


def _row(explanation: Explanation) -> str:
    message = explanation.message.replace("|", "\\|")
    return f"| **{explanation.title}**: {message} | {explanation.cause} | {explanation.fix} |"

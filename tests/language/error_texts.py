"""A refused matcher or schema, in words."""

from __future__ import annotations

from simkit.core.errors import MatcherError
from simkit.language.yaml import path_text


def error_text(problem: MatcherError) -> str:
    """Return all that it says: where, what, a near word, those that are known, and the advice."""
    where = path_text(problem.path) or "all"
    known = ", ".join(problem.known)
    lines = (f"{where}: {problem.what}", f"near: {problem.word}", f"known: {known}")
    return "\n".join([*(line for line in lines if not line.endswith(": ")), problem.advice]).strip()

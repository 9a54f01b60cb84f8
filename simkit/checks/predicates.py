"""The user's predicates: they get the view of the trace, and return true or what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

from simkit.checks.claims import Writer
from simkit.checks.findings import Finding
from simkit.checks.scope import Scope
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import collected_meanwhile
from simkit.core.text import short
from simkit.language.matching.rendering import line
from simkit.trace.views import View

MESSAGE_MAX: Final = 500
"""Characters of a predicate's message or exception in a finding."""

Find = Callable[[str], Callable[..., Any]]
"""Finds a user's function by its name ``module:function``."""


def check_satisfies(scope: Scope, writer: Writer, view: View, find: Find) -> Iterator[Finding]:
    """Yield the predicates that fail, raise, or cannot be found."""
    names = scope.expect.satisfies or ()
    is_one = isinstance(names, str)
    for place, name in enumerate((names,) if isinstance(names, str) else names):
        path = (*scope.path, "satisfies") if is_one else (*scope.path, "satisfies", place)
        try:
            predicate = find(name)
        except SimkitError as problem:
            yield writer.finding(path, str(problem), turn=scope.turn, breaks=True)
            continue
        try:
            with collected_meanwhile():
                answer = predicate(view)
        except Exception as problem:
            raised = f"it raised {type(problem).__name__}: {short(str(problem), MESSAGE_MAX)}"
            yield writer.finding(
                path,
                f"`{name}` does not hold: {raised}",
                turn=scope.turn,
                context=[_place_of(problem)],
            )
            continue
        if answer is not True:
            yield writer.finding(
                path, f"`{name}` does not hold: {_answer_text(answer)}", turn=scope.turn
            )


def _answer_text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer if len(answer) <= MESSAGE_MAX else f"{answer[: MESSAGE_MAX - 1]}…"
    returned = "nothing" if answer is None else line(answer)
    return f"it returned {returned}; a predicate returns true, or a text that says what is wrong"


def _place_of(problem: Exception) -> str:
    """Return the place in user code that raised."""
    frame = extract_tb(problem.__traceback__)[-1]
    return f"raised at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"

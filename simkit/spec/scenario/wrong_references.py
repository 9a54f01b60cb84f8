"""The errors of references in a scenario that have no target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import FakeInvalid, SourceError
from simkit.core.text import guess, late_pattern
from simkit.language.paths import head_of
from simkit.language.yaml import Document, SourcePath, near
from simkit.spec.pipeline.root_names import ROOTS as PIPELINE_ROOTS
from simkit.spec.scenario.fakes import Fakes, provider_in

ROOTS: Final = ("column", "env", "fake")
OF_TURNS: Final = ("turn", "turns")
_NAME: Final = late_pattern(r"[^\W\d]\w*")
_INDEX: Final = late_pattern(r"\w+\[(\d+)\]")


def check_name(document: Document, at: SourcePath, name: str) -> None:
    """Raise SourceError for a name that cannot be used in references."""
    if _NAME.fullmatch(name) is None:
        raise document.error(
            at,
            f"`{name}` is no name that a reference can begin with",
            key=True,
            advice="Write letters, digits and `_`: `customer`, `order_2`.",
        )
    if name in (*ROOTS, *OF_TURNS, *PIPELINE_ROOTS):
        raise document.error(
            at,
            f"`${{{name}}}` has a meaning already",
            key=True,
            advice="Give who is made up another name, such as `customer`.",
        )


def forms_of(head: str, root: Mapping[str, Any], names_known: Sequence[str]) -> str:
    """Describe the correct form of a reference that begins with no root, from the nearest names."""
    forms = {key: f"{first}.{key}" for first in ("env", "column") for key in root.get(first, ())}
    forms |= {first: f"{first}.NAME" for first in ROOTS}
    forms |= {
        name: f"{name}[0].NAME" if isinstance(root[name], list) else f"{name}.NAME"
        for name in names_known
    }
    nearest = forms.get(head) or forms.get(near(head, forms), "")
    if nearest:
        return f"Write `${{{nearest}}}`; a literal is written `$${{`."
    return (
        "Write `${column.NAME}` for a column of `examples`, `${env.NAME}` for a variable under "
        "`env`, `${fake.NAME}` for a value of Faker's; a literal is written `$${`."
    )


def absent_target(
    document: Document, path: SourcePath, reference: str, root: Mapping[str, Any]
) -> SourceError:
    """Return the error that a reference has no target."""
    head = head_of(reference)
    value_there = root[head]
    if isinstance(value_there, list):
        match = _INDEX.match(reference)
        if match is None or int(match[1]) >= len(value_there):
            last = (
                f"{head}[0]"
                if len(value_there) == 1
                else f"{head}[0] to {head}[{len(value_there) - 1}]"
            )
            return document.error(
                path,
                f"`${{{reference}}}` is not there",
                advice=f"There are {last}: write `${{{head}[0].name}}`.",
            )
        value_there = value_there[int(match[1])]
    if isinstance(value_there, Fakes):
        word = reference.removeprefix(head).partition(".")[2]
        owner = "Faker" if head == "fake" else f"`{reference.removesuffix(word).rstrip('.')}`"
        word = provider_in(word)
        advice = guess(word, value_there.known(), "did you mean `{}`?")
        return document.error(path, f"{owner} has no `{word}`", advice=advice)
    known = tuple(f"{head}.{key}" for key in value_there)
    advice = "" if known else "The scenario has no `examples:` table."
    if head == "persona":
        advice = "Each user needs this key in its `persona:`."
    if head == "env":
        advice = (
            f"List the variable under `env:`, or write `$${{{reference}}}` for the text itself."
        )
    return document.error(
        path, f"`${{{reference}}}` is not there", word=reference, known=known, advice=advice
    )


def invalid_fake(document: Document, path: SourcePath, problem: FakeInvalid) -> SourceError:
    """Return the error that Faker cannot make up what stands at a path."""
    advice = "" if problem.known or not problem.near else f"did you mean `{problem.near}`?"
    problem_found = document.error(path, str(problem), advice=advice)
    return SourceError(
        problem_found.where,
        problem_found.what,
        problem_found.at,
        problem.near if problem.known else "",
        problem.known,
        problem_found.advice,
    )

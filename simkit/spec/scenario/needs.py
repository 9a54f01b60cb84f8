"""Distributions that a scenario needs beside simkit: looked up, never imported.

Few scenarios have any, so that what reads requirements is imported on use.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from simkit.spec.fields import refuse, shown_value

ADVICE: Final = "Write a distribution, or one with versions: `langgraph`, `'langgraph>=1.2'`."


def _requirement(value: Any) -> str:
    """Return the requirement in pip's syntax; reject anything beside name and versions."""
    from packaging.requirements import InvalidRequirement, Requirement

    if not isinstance(value, str):
        raise refuse(f"a need must be a text, not {shown_value(value)}", advice=ADVICE)
    try:
        requirement = Requirement(value)
    except InvalidRequirement:
        raise refuse(f"`{value}` is no distribution with versions", advice=ADVICE) from None
    if requirement.extras or requirement.marker or requirement.url:
        raise refuse(
            f"`{value}` says more than a distribution and its versions",
            advice="Extras, markers and addresses cannot be looked up; name what they bring.",
        )
    return str(requirement)


Need = Annotated[
    str,
    BeforeValidator(_requirement),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[A-Za-z0-9][\w.-]*\s*([(<>=!~].*)?$|\$\{"}),
]
"""A distribution, with or without versions."""


def unmet(needs: Iterable[str]) -> str:
    """Return the missing needs with advice; empty if none is missing.

    A malformed need does not count as missing here: it is reported when the scenario is read.
    """
    lacks = dict(lack for need in needs if (lack := _lack(need)) is not None)
    if not lacks:
        return ""
    missing = [need for need, installed in lacks.items() if not installed]
    unmet_texts = [
        f"{need}, but {installed} is installed" for need, installed in lacks.items() if installed
    ]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        unmet_texts.insert(0, f"{', '.join(missing)}, which {are} not installed")
    return f"needs {'; '.join(unmet_texts)}: pip install {shlex.join(lacks)}"


@lru_cache(maxsize=256)
def _lack(need: str) -> tuple[str, str] | None:
    """Return a missing need in pip's syntax, and the installed version; None if it is met."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(need)
    except InvalidRequirement:
        return None
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return str(requirement), ""
    if requirement.specifier.contains(installed, prereleases=True):
        return None
    return str(requirement), installed

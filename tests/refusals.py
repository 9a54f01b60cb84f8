"""Tables of refused files: a base, what each case replaces in it, and what is then said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from simkit.core.errors import SourceError
from simkit.language.matching import OPERATORS
from simkit.providers.failures import FAILURES
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.claims import RUN_CLAIMS
from simkit.spec.scenario.files import Library, items_in
from simkit.trace.events import KINDS, AgentStarted
from simkit.trace.views import ToolView
from tests.golden import CaseText

FILE: Final = "t.scenario.yaml"
TESTS: Final = Path(__file__).resolve().parent
LISTS: Final = {
    "<LINTS>": ", ".join(LINTS),
    "<EVENTS>": ", ".join(KINDS),
    "<RUN_CLAIMS>": ", ".join(sorted(RUN_CLAIMS)),
    "<AGENT_STARTED>": ", ".join(AgentStarted.__struct_fields__),
    "<TOOL_CALL>": ", ".join(ToolView.FIELDS),
    "<OPERATORS>": ", ".join(sorted(OPERATORS)),
    "<FAILURES>": ", ".join(FAILURES),
}
"""What stands in a table for a list that grows."""


@dataclass(frozen=True)
class Case:
    """One file, and the whole text with which it is refused (empty: it is accepted)."""

    name: str
    text: str
    says: str
    shape: str
    """The kind of document whose JSON Schema refuses it too; empty if that cannot see it."""


def table(file: str) -> tuple[str, list[Case], list[Case]]:
    """Returns a table's base, its refused and its accepted cases."""
    read: Mapping[str, Any] = yaml.safe_load((TESTS / file).read_text(encoding="utf-8"))
    base: str = read["base"]
    refused = [
        _case(base, entry, CaseText.at(TESTS / file, place, entry["says"], LISTS))
        for number, entry in enumerate(read["refused"])
        for place in [("refused", number, "says")]
    ]
    return base, refused, [_case(base, entry, "") for entry in read.get("accepted", ())]


def _case(base: str, entry: Mapping[str, Any], says: str) -> Case:
    text = base
    for old, new in entry["replace"]:
        assert old in text, f"{entry['name']}: the base holds no {old!r}"
        text = text.replace(old, new, 1)
    return Case(entry["name"], text, says, entry.get("shape", ""))


def parametrized(cases: list[Case]) -> pytest.MarkDecorator:
    """Runs a test once for each case."""
    marks = {True: [pytest.mark.golden], False: []}
    params = [pytest.param(case, id=case.name, marks=marks[bool(case.says)]) for case in cases]
    return pytest.mark.parametrize("case", params)


def refusal() -> str:
    """Returns what is said of the file in the current folder, or an empty text."""
    try:
        library = Library()
        for item in items_in(FILE):
            library.prepared(item)
    except SourceError as problem:
        return str(problem)
    return ""


def refusal_of(text: str) -> str:
    """Returns what is said of a text once it is a file in the current folder."""
    Path(FILE).write_text(text, encoding="utf-8")
    return refusal()

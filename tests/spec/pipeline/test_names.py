"""Names and graphs in a pipeline file: each leads somewhere, or the file is refused."""

from __future__ import annotations

import pytest

from tests.golden import assert_says
from tests.refusals import Case, parametrized, refusal_of, table

TABLES = [table(f"spec/pipeline/{name}.yaml") for name in ("names", "graph_shape")]


pytestmark = pytest.mark.usefixtures("cwd")


@pytest.mark.parametrize("base", [base for base, _, _ in TABLES])
def test_base_of_a_table_is_accepted(base: str) -> None:
    assert refusal_of(base) == ""


@parametrized([case for _, refused, _ in TABLES for case in refused])
def test_what_leads_nowhere_or_cannot_run_is_refused(case: Case) -> None:
    assert_says(refusal_of(case.text), case.says)


@parametrized([case for _, _, accepted in TABLES for case in accepted])
def test_what_leads_somewhere_is_accepted(case: Case) -> None:
    assert refusal_of(case.text) == ""

"""Names in a scenario file: each leads somewhere, or the file is refused with what is near."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.refusals import Case, parametrized, refusal_of, table

BASE, REFUSED, ACCEPTED = table("scenario/names.yaml")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_base_of_the_table_is_accepted() -> None:
    assert refusal_of(BASE) == ""


@parametrized(REFUSED)
def test_name_that_leads_nowhere_is_refused(case: Case) -> None:
    assert refusal_of(case.text) == case.says


@parametrized(ACCEPTED)
def test_name_that_leads_somewhere_is_accepted(case: Case) -> None:
    assert refusal_of(case.text) == ""


@pytest.mark.parametrize(
    ("shared", "says"),
    [
        (
            "given: {state: {decison: none}}",
            "s.yaml:2:17: unknown channel `decison`\n"
            "  at given.state.decison\n"
            "  did you mean `decision`?   known: messages, decision",
        ),
        (
            "tool_results: {log_mael: {kcal: 800}}",
            "s.yaml:2:16: no agent has tool `log_mael`\n"
            "  at tool_results.log_mael\n"
            "  did you mean `log_meal`?   known: log_meal, store",
        ),
        (
            "agents: {coach: You are a coach}",
            "s.yaml:2:1: `agents` is about a pipeline that is code, and this one is YAML\n"
            "  at agents",
        ),
        ("tool_results: {log_meal: {kcal: 800}}", ""),
    ],
)
def test_names_in_a_shared_file_are_the_pipelines_too(shared: str, says: str) -> None:
    Path("s.yaml").write_text(f"version: 1\n{shared}\n")

    said = refusal_of(BASE.replace("turns:\n", "use: [s.yaml]\nturns:\n"))

    assert said == says

"""Validators that no schema says refuse what is drawn: that is no fault of the application."""

from __future__ import annotations

import pytest

from tests.cli.projects import Call, write

CODE = """
from pydantic import BaseModel, field_validator
from pydantic_ai import Agent


class Answer(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def check(cls, value):
        assert value.startswith("A-"), "must start with A-"
        return value


agent = Agent("openai:gpt-5", output_type=Answer, name="desk")
"""
TEXT = "simulation: codes\npipeline: validated_app:agent\nusers: {u: {says: Hi.}}\nturns: 1\n"


@pytest.fixture(autouse=True)
def _files(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    write("validated_app.py", CODE)


@pytest.mark.slow
def test_what_to_write_for_the_model_is_said(simkit: Call) -> None:
    write("a.simulation.yaml", TEXT)

    done = simkit("explore", "--runs", "2", "a.simulation.yaml")

    assert done.code == 2
    assert "  NOT EXPLORED  error: turn 1 ended with error UnexpectedModelBehavior" in done.out
    assert (
        "What the drawn model of 'desk' answers fits its schema, and validators of the code that "
        "no schema says refused it each time. Say what they accept in a simulation: "
        "`models: {desk: [{calls: [{final_result: {code: code}}]}]}`, with other values."
    ) in done.out


@pytest.mark.slow
@pytest.mark.parametrize(("code", "ends"), [("A-1", 0), ("B-1", 1)])
def test_lines_of_the_file_are_its_authors(code: str, ends: int, simkit: Call) -> None:
    lines = f"models: {{desk: [{{calls: [{{final_result: {{code: {code}}}}}]}}, Hm.]}}\n"
    write("a.simulation.yaml", TEXT + lines)

    done = simkit("explore", "--runs", "2", "a.simulation.yaml")

    assert done.code == ends, done.out + done.err
    assert "NOT EXPLORED" not in done.out

"""What a pipeline fails with is said, whatever its exception is."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.adapters.refusals import failure_of
from simkit.core.messages import Fails
from simkit.core.text import exception_text
from tests.adapters.running import run_app

APP = """
class Wordless(Exception):
    def __str__(self):
        return None

def answer(text):
    raise Wordless
"""


def test_an_exception_that_has_no_words_is_the_pipelines(tmp_path: Path) -> None:
    (tmp_path / "wordless.py").write_text(APP, encoding="utf-8")

    ran = run_app("wordless:answer", "turns: [{user: Hi}]", tmp_path)

    text = "`wordless:answer` raised Wordless, at wordless.py:7 in answer"
    assert ran.error() == ("FunctionFailed", text)


def test_causes_that_lead_back_to_where_they_began_have_an_end() -> None:
    error, other = ValueError("one"), ValueError("other")
    error.__cause__, other.__cause__ = other, error

    failure = failure_of(error, Fails("rate_limit", 429, "Slow down."), "app:answer")

    assert str(failure) == "`app:answer` raised ValueError: one"


@pytest.mark.parametrize("name", ["status_code", "status", "code"])
def test_a_failure_with_the_status_that_was_served_is_the_models(name: str) -> None:
    problem = ValueError("one")
    setattr(problem, name, 429)

    failure = failure_of(problem, Fails("rate_limit", 429, "Slow down."), "app:answer")

    assert (failure.type, str(failure)) == ("rate_limit", "Slow down.")


def test_the_one_failure_of_a_task_group_counts_as_it_would_alone() -> None:
    problem = ValueError("busy")
    problem.status = 429  # type: ignore[attr-defined]
    groups = ExceptionGroup("tasks", [ExceptionGroup("tasks", [problem])])

    assert failure_of(groups, Fails("rate_limit", 429, "Slow."), "app:answer").type == "rate_limit"
    assert "raised ValueError: busy" in str(failure_of(groups, None, "app:answer"))
    assert exception_text(groups) == "ValueError: busy"
    two = ExceptionGroup("tasks", [problem, KeyError("b")])
    assert "raised ExceptionGroup: tasks (2 sub-exc" in str(failure_of(two, None, "app:answer"))


HANDLED_ONCE = """
from openai import OpenAI, OpenAIError

def answer(text):
    if text == "again":
        raise OpenAIError("no key is set")
    sent = [{"role": "system", "content": "You are the desk."}, {"role": "user", "content": text}]
    try:
        client = OpenAI(api_key="none", max_retries=0)
        return client.chat.completions.create(model="m", messages=sent).choices[0].message.content
    except OpenAIError:
        return "Later, please."
"""


def test_an_error_is_not_taken_for_a_failure_of_an_earlier_turn(tmp_path: Path) -> None:
    (tmp_path / "handled_once.py").write_text(HANDLED_ONCE, encoding="utf-8")
    turns = (
        "agents: {desk: {system: {$starts: You are}}}\n"
        "turns:\n"
        "  - {user: hi, replies: {desk: {error: rate_limit}}, expect: {reply: 'Later, please.'}}\n"
        "  - {user: again, expect: {error: rate_limit}}\n"
    )

    ran = run_app("handled_once:answer", turns, tmp_path)

    assert ran.error() == (
        "FunctionFailed",
        "`handled_once:answer` raised OpenAIError: no key is set, at handled_once.py:6 in answer",
    )

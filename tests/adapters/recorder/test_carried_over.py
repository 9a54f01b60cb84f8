"""What an earlier scenario said, and reaches a request: carried over, or a constant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import pytest

from simkit.adapters.recorder import carried_over
from simkit.adapters.recorder.carried_over import ScenarioTexts, is_written_in
from simkit.adapters.recorder.left_values import NamedModules, holder_of
from simkit.core.messages import Message

LONG = "My order A-1042 never arrived."


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    carried_over.forget_all()
    yield
    carried_over.forget_all()


def run(name: str, user: str, *contents: str, reply: str = "Hello.") -> list[str]:
    """Runs a scenario of one turn; returns the texts that were carried over into its request."""
    texts = ScenarioTexts(name)
    texts.add(user, "user")
    carried = [
        each.text for each in texts.find_carried([Message("user", text) for text in contents])
    ]
    texts.add(reply, "assistant")
    texts.end()
    return carried


def test_the_first_scenario_has_nothing_before_it() -> None:
    assert run("one", "I am Ada", "I am Ada") == []


@pytest.mark.parametrize("text", ["I am Ada", "Hello."])
def test_what_a_user_or_a_model_said_before_is_carried_over(text: str) -> None:
    run("one", "I am Ada", "I am Ada")

    assert run("two", "Who am I", text, "Who am I") == [text]


def test_a_long_text_is_found_within_another_and_a_short_one_is_not() -> None:
    run("one", LONG, LONG, reply="Yes")

    assert run("two", "And now", f"So far:\nuser: {LONG}\nassistant: Yes") == [LONG]


def test_what_the_scenario_says_itself_is_its_own() -> None:
    run("one", "I am Ada", "I am Ada")

    assert run("two", "I am Ada", "I am Ada") == []
    assert run("two", "Is it so? I am Ada", "I am Ada") == []


def test_another_run_of_the_same_scenario_says_the_same() -> None:
    run("one", "I am Ada", "I am Ada")

    assert run("one", "Who am I", "I am Ada") == []


def test_an_example_in_each_request_is_no_text_of_a_scenario() -> None:
    run("one", "I am Ada", "I am Ada", "I am Ada")
    run("two", "Something else", "I am Ada", "Something else")

    assert run("three", "Who am I", "I am Ada", "Who am I") == []


def test_what_was_sent_before_it_was_said_is_no_text_of_a_scenario() -> None:
    run("one", "Good day", "I am Ada", "Good day")
    run("two", "I am Ada", "I am Ada")

    assert run("three", "Who am I", "I am Ada", "Who am I") == []


def test_a_text_is_told_once_and_keeps_the_scenario_that_said_it() -> None:
    run("one", "I am Ada", "I am Ada")
    texts = ScenarioTexts("two")

    first = [*texts.find_carried([Message("user", "I am Ada")])]
    again = [*texts.find_carried([Message("user", "I am Ada"), Message("user", "more")])]

    assert [(each.scenario, each.said_by) for each in first] == [("one", "user")]
    assert again == []
    texts.end()
    assert run("three", "Who am I", "I am Ada") == ["I am Ada"]


def test_given_state_and_results_of_tools_are_the_scenario_s_own() -> None:
    run("one", LONG, LONG, reply="Sold out")
    texts = ScenarioTexts("two")
    texts.add_value({"messages": [{"role": "user", "content": LONG}]})
    texts.add_value("Sold out")

    assert [*texts.find_carried([Message("user", LONG), Message("system", "Sold out")])] == []


def test_a_message_with_a_tool_s_result_is_not_looked_at() -> None:
    run("one", "I am Ada", "I am Ada", reply="1")

    assert [*ScenarioTexts("two").find_carried([Message("tool", "1")])] == []


def test_the_variable_that_keeps_a_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("keeping")
    vars(module).update(__file__=__file__, store=SimpleNamespace(texts=[LONG]))
    monkeypatch.setitem(sys.modules, "keeping", module)

    names = [holder_of(text, NamedModules("keeping")) for text in (LONG, "nobody's")]

    assert names == ["keeping.store", ""]


def test_a_text_in_the_source_is_the_application_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("written")
    module.__file__ = __file__
    monkeypatch.setitem(__import__("sys").modules, "written", module)

    assert is_written_in("My order A-1042 never arrived.", NamedModules("written"))
    assert not is_written_in("no such " + "text", NamedModules("written"))


def test_a_long_text_is_found_among_many() -> None:
    for number in range(90):
        run(f"number {number}", f"I am the customer {number:02}", "Hi", reply="Yes")

    assert run("last", "And now", "So: I am the customer 70, I am the customer 07") == [
        "I am the customer 70", "I am the customer 07",
    ]  # fmt: skip


def test_a_value_that_is_shared_many_times_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("keeping")
    numbers = [*range(1_000)]
    module.LISTS = [[LONG], *[numbers] * 1_000]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keeping", module)

    assert holder_of(LONG, NamedModules("keeping")) == "keeping.LISTS"

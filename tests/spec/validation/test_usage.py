"""Files under ``use`` and channels, judged by all scenarios that use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.validation.cases import problems_of

PIPELINE = """\
version: 1
pipeline: desk
channels: {orders: {scope: session}, spare: {scope: session}, notes: {scope: session}}
agents: {triage: {instructions: "Orders: ${state.orders}", tools: [find, pay]}}
flow: {handoffs: {start: triage}}
"""
SCENARIO = """\
version: 1
scenario: one
pipeline: desk.pipeline.yaml
use: [shop.yaml]
turns:
  - user: Hi
    replies: {triage: [{calls: [find: {}]}, Done.]}
    expect: {state: {spare: null}}
"""
SHARED = """\
version: 1
given: {state: {orders: o-17, notes: Call back.}}
tool_results: {find: 1, pay: 2}
"""
NOTES = """\
shop.yaml:2:31: warning VAL-25: nothing reads channel `notes`, and no claim mentions it
  at given.state.notes
  Remove it, or correct its name."""
PAY = """\
shop.yaml:3:25: warning VAL-25: no reply line of the scenarios that use this file calls tool `pay`
  at tool_results.pay
  Remove it, or correct its name."""


@pytest.fixture(autouse=True)
def _desk(cwd: Path) -> None:
    Path("desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    Path("one.scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    Path("shop.yaml").write_text(SHARED, encoding="utf-8")


def second(old: str, new: str) -> None:
    """Writes another scenario of the same pipeline and the same file."""
    assert old in SCENARIO
    text = SCENARIO.replace("one", "two").replace(old, new)
    Path("two.scenario.yaml").write_text(text, encoding="utf-8")


def test_what_a_shared_file_gives_and_no_scenario_reads_is_found() -> None:
    assert problems_of(".") == f"{NOTES}\n{PAY}"


def test_what_one_of_the_scenarios_reads_is_used() -> None:
    second("find: {}", "pay: {}")

    assert problems_of(".") == NOTES


def test_a_result_that_a_turn_replaces_is_not_read() -> None:
    second("calls: [find: {}]}, Done.]}", "calls: [pay: {}]}, Done.]}\n    tool_results: {pay: 3}")

    assert problems_of(".") == f"{NOTES}\n{PAY}"


def test_of_one_file_alone_nothing_is_said_that_others_may_use() -> None:
    assert problems_of("one.scenario.yaml") == ""


def test_a_channel_that_no_scenario_of_the_folder_mentions_is_found() -> None:
    Path("shop.yaml").write_text("version: 1\ngiven: {state: {orders: o-17}}\n", encoding="utf-8")
    scenario = SCENARIO.replace("spare", "orders")
    Path("one.scenario.yaml").write_text(scenario, encoding="utf-8")

    assert problems_of(".") == "\n".join(
        f"desk.pipeline.yaml:3:{column}: warning VAL-14: nothing reads or writes channel `{name}`, "
        f"and no scenario mentions it\n  at channels.{name}\n  Remove it, or use it."
        for name, column in (("spare", 38), ("notes", 63))
    )


def test_what_a_shared_file_turns_off_is_not_told() -> None:
    off = SHARED + "lints: {VAL-25: more scenarios are coming}\n"
    Path("shop.yaml").write_text(off, encoding="utf-8")

    assert problems_of(".") == ""

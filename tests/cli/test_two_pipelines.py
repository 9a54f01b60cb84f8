# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""Scenarios of a design on the code that implements it: `replay` and `diff` with `--pipeline`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.projects import Call, Done, write

DESIGN = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say., context: [instructions, current_message], handoffs: []}}
flow: {handoffs: {start: a}}
"""
SCENARIOS = """\
version: 1
scenario: it answers
pipeline: echo.pipeline.yaml
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello, context: {a: {messages: [{system: Say.}, {user: hi}]}}}}]
---
version: 1
scenario: it knows its sections
pipeline: echo.pipeline.yaml
turns: [{user: hi, replies: {a: hello}, expect: {context: {a: {current_message: [user: hi]}}}}]
---
version: 1
pipeline: other
agents: {a: {instructions: Say., handoffs: []}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: it is another's
pipeline: other
turns: [{user: hi, replies: {a: hello}}]
"""
CODE = """\
version: 1
pipeline: real
code: echo_talk:run
app: {path: [.]}
agents: {a: {system: Say.}}
implements:
  designs: [echo.pipeline.yaml]
  differs: {state.messages: It tells no state., context.*.settings: The model is the code's.}
  leaves_out: {"talk.scenario.yaml::it knows its sections": It names none.}
"""
TALK = """\
from openai import OpenAI


def run(text):
    said = [{"role": "system", "content": "Say."}, {"role": "user", "content": text}]
    return OpenAI().chat.completions.create(model="m", messages=said).choices[0].message.content
"""


@pytest.fixture
def both(simkit: Call) -> Call:
    """The command line, in a project with a design and its code."""
    Path("scenarios/good.scenario.yaml").unlink()
    write("scenarios/echo.pipeline.yaml", DESIGN)
    write("scenarios/talk.scenario.yaml", SCENARIOS)
    write("scenarios/real.pipeline.yaml", CODE)
    write("scenarios/echo_talk.py", TALK)
    return simkit


def changed(name: str, old: str, new: str) -> None:
    text = Path(name).read_text(encoding="utf-8")
    assert old in text
    write(name, text.replace(old, new))


def test_its_scenarios_hold_on_the_code_but_for_what_it_leaves_out(both: Call) -> None:
    assert both("replay", "--pipeline", "real") == Done(
        0,
        """\
scenarios/talk.scenario.yaml
  ok      it answers
  xfailed it knows its sections (It names none.)
  skipped it is another's (`real` does not implement its pipeline)

skipped: 1 scenario: `real` does not implement its pipeline
3 scenarios: 1 held, 1 skipped, 1 failed as expected (0.00 s)
""",
        "",
    )


def test_what_is_left_out_and_holds_fails(both: Call) -> None:
    changed(
        "scenarios/real.pipeline.yaml",
        "{system: Say.}",
        "{system: Say., sections: {current_message: {role: user}}}",
    )

    done = both("replay", "--pipeline", "real", "-q")

    assert done.code == 1
    assert (
        "scenarios/talk.scenario.yaml:6:1: the scenario holds on real, but `leaves_out` has it: It names\n  none.\n"
        "  → Take it out of `leaves_out`.\n\n"
    ) in done.out
    assert (
        "\n\nreproduce: simkit replay 'scenarios/talk.scenario.yaml::it knows its sections' --pipeline real --seed 0\n"
    ) in done.out


def test_what_is_left_out_may_be_impossible_to_put_together(both: Call) -> None:
    changed(
        "scenarios/talk.scenario.yaml",
        "scenario: it knows its sections\n",
        "scenario: it knows its sections\ngiven: {state: {messages: []}}\n",
    )

    assert both("replay", "--pipeline", "real", "-q") == Done(
        0,
        """\
skipped: 1 scenario: `real` does not implement its pipeline
3 scenarios: 1 held, 1 skipped, 1 failed as expected (0.00 s)
""",
        "",
    )


def test_nothing_differs_but_what_is_declared(both: Call) -> None:
    assert both("diff", "scenarios", "--pipeline", "real") == Done(
        0,
        """\
scenarios/talk.scenario.yaml::it knows its sections: left out: It names none.

scenarios/talk.scenario.yaml::it is another's: left out: `real` does not implement its pipeline

3 scenarios: 1 equal, 2 left out
""",
        "",
    )


def test_what_is_not_declared_is_shown(both: Call) -> None:
    changed("scenarios/echo_talk.py", '"content": "Say."', '"content": "Say. Please."')
    changed("scenarios/real.pipeline.yaml", "{system: Say.}", "{system: Say. Please.}")

    done = both("diff", "scenarios/talk.scenario.yaml::it answers", "--pipeline", "real")

    assert done == Done(
        1,
        """\
scenarios/talk.scenario.yaml::it answers
  - echo (scenarios/echo.pipeline.yaml)
  + real (scenarios/real.pipeline.yaml)

  a, turn 1: 2 messages, 2 → 4 tokens
    - 1. system a · instructions
        Say.
    + 1. system a
        Say. Please.
      = 1 message

1 scenario: 1 different
""",
        "",
    )


def test_a_difference_that_is_declared_and_is_not_there_is_broken(both: Call) -> None:
    changed("scenarios/real.pipeline.yaml", "differs: {", "differs: {state.plan: Old., ")

    whole = both("diff", "scenarios", "--pipeline", "real")
    call = both("diff", "scenarios/talk.scenario.yaml::it is another's", "--pipeline", "real")

    assert whole.code == 2
    assert whole.out.endswith(
        """\
scenarios/real.pipeline.yaml
  scenarios/real.pipeline.yaml:8:13: `state.plan` is declared to differ, and does not in any scenario

4 scenarios: 1 equal, 2 left out, 1 broken
"""
    )
    assert call.code == 0


def test_a_file_that_implements_a_design_is_used(both: Call) -> None:
    assert both("validate", "--strict", "scenarios").code == 0

    changed("scenarios/real.pipeline.yaml", "::it knows its sections", "::it knew its sections")

    assert (
        "unknown scenario `talk.scenario.yaml::it knew its sections`"
        in both("validate", "scenarios").err
    )

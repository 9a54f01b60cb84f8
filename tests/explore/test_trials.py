"""Each scenario that is written shows its finding, whatever outlives a conversation in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import explore
from tests.cli.projects import CLIENT, Call, write

pytestmark = pytest.mark.slow

CODE = (
    CLIENT
    + """
import itertools
from uuid import uuid4

import simkit

seen = []


class Desk:
    calls = 0

    def __init__(self):
        self.answers = {}


desk = Desk()


def ask(text):
    with simkit.agent("desk"):
        return asked([{"role": "user", "content": text}])


def third(text):
    seen.append(text)
    Desk.calls += 1
    desk.answers[len(seen)] = text
    if len(seen) > 2:
        raise RuntimeError("the third")
    return ask(text)


def once(text):
    seen.append(text)
    if len(seen) < 2:
        raise RuntimeError("the first")
    return ask(text)


answers = {}


def from_cache(text, session=""):
    if text not in answers:
        answers[text] = ask(text)
    return answers[text]


def after_the_last(text, session=""):
    answers[session] = reply = ask(f"{answers.get(session, 'First')}: {text}")
    return reply


NUMBER = itertools.count(uuid4().int)


def numbered(text):
    return ask(f"{next(NUMBER)} {uuid4()}: {text}")


def never(text):
    seen.append(text)
    if text != "Hello.":
        raise RuntimeError("another")
    return ask(text)
"""
)
NATIVE = """
pipeline: desk
agents: {desk: {instructions: Look., tools: [look], context: [instructions, current_message]}}
tools: {look: {args: {type: object}, function: native_memory:look}}
flow: {handoffs: {start: desk}}
---
simulation: the desk looks
pipeline: desk
turns: 1
models: {desk: [{calls: [look: {}]}, Done.]}
never: [{kind: ToolFailed}]
"""
LOOK = """
seen = []


def look():
    seen.append(1)
    if len(seen) > 2:
        raise ValueError("the third")
    return len(seen)
"""


def test_a_finding_that_needs_earlier_conversations_is_told_and_not_written(simkit: Call) -> None:
    write("memory_desk.py", CODE)

    done = simkit("explore", "memory_desk:third", "--runs", "20", "--turns", "1")
    result = explore("memory_desk:third", runs=20, turns=1)

    assert done.code == 1
    assert "raised RuntimeError: the third" in done.out
    assert "No scenario: in a new process, this conversation alone does not show it." in done.out
    names = "memory_desk.seen, memory_desk.Desk, memory_desk.desk"
    assert f"Values that conversations changed: {names}.\n" in done.out
    assert not Path("found").exists()
    (finding,) = result.findings
    assert finding.scenario == ""
    assert "memory_desk.seen" in finding.note
    assert finding.note in str(result)


def test_modules_that_are_imported_again_keep_nothing(simkit: Call) -> None:
    write("memory_desk.py", CODE)
    text = "simulation: a\npipeline: memory_desk:third\nturns: 1\napp: {path: [.], fresh: true}\n"
    write("a.simulation.yaml", text)

    done = simkit("explore", "a.simulation.yaml", "--runs", "20")

    assert done.code == 0, done.out


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("from_cache", "nothing in turn 1, where it is sent 'Hello.' without"),
        ("after_the_last", "'Done.: Hello.' in turn 1, where it is sent 'First: Hello.'"),
    ],
)
def test_a_conversation_that_others_change_is_warned_of_though_nothing_is_wrong_with_it(
    entry: str, text: str, simkit: Call
) -> None:
    write("memory_desk.py", CODE)

    done = simkit("explore", f"memory_desk:{entry}", "--runs", "20")

    assert done.code == 0
    assert f"RUN-08: after other conversations, agent 'desk' is sent {text}" in done.out


def test_drawn_numbers_are_no_difference(simkit: Call) -> None:
    write("memory_desk.py", CODE)

    assert "RUN-08" not in simkit("explore", "memory_desk:numbered", "--runs", "20").out


def test_a_finding_that_its_conversation_shows_alone_is_written(simkit: Call) -> None:
    write("memory_desk.py", CODE)

    done = simkit("explore", "memory_desk:never", "--runs", "20", "--turns", "1")

    assert "No scenario" not in done.out
    assert simkit("replay", "found/error.scenario.yaml").code == 1


@pytest.mark.parametrize("options", [(), ("--exhaustive",), ("-j", "2")])
def test_the_first_conversation_of_a_process_is_not_lost(
    options: tuple[str, ...], simkit: Call, process: Call
) -> None:
    write("memory_desk.py", CODE)

    done = simkit("explore", "memory_desk:once", "--runs", "60", "--turns", "1", *options)

    assert "raised RuntimeError: the first" in done.out
    assert "No scenario" not in done.out
    assert process("replay", "found/error.scenario.yaml").code == 1


def test_functions_of_a_declared_pipeline_keep_state_too(simkit: Call) -> None:
    write("native_memory.py", LOOK)
    write("a.simulation.yaml", NATIVE)

    done = simkit("explore", "a.simulation.yaml", "--runs", "20")

    assert done.code == 1
    assert "Values that conversations changed: native_memory.seen." in done.out


def test_a_test_of_pytest_tells_it_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(native_memory=LOOK)
    pytester.makefile(".simulation.yaml", a=NATIVE)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Values that conversations changed: native_memory.seen."])

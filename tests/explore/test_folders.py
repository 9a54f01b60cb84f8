"""A folder is explored as its simulations, and its scenarios by pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import SimkitError, explore
from simkit.explore.subjects import Subject, subjects_named
from simkit.spec.scenario.files import Library
from tests.cli.projects import Call, write
from tests.explore.desks import BROKEN, DESK, SOUND
from tests.explore.test_simulations import BUYER


def scenario(name: str, text: str, more: str = "") -> str:
    return (
        f"---\nscenario: {name}\npipeline: ../desk.pipeline.yaml\n{more}"
        f"turns: [{{user: {text}}}, {{user: Bye.}}]\n"
    )


@pytest.fixture(autouse=True)
def _files(simkit: Call) -> None:
    write("all/desk.pipeline.yaml", SOUND)
    write("all/a/one.scenario.yaml", scenario("one", "Hi.") + scenario("two", "Refund me."))
    given = "given: {state: {messages: []}}\n"
    write("all/a/other.scenario.yaml", scenario("three", "Hey.", given))
    write("all/b/more.scenario.yaml", scenario("four", "Help!") + scenario("no", "-", "skip: no\n"))
    write("all/b/s.simulation.yaml", DESK + BUYER)


def test_scenarios_of_one_pipeline_and_setup_are_one_subject() -> None:
    subjects = dict(subjects_named(Library(), "all/"))

    assert [*subjects] == [
        "all/b/s.simulation.yaml::the desk",
        "all/b/more.scenario.yaml::no",
        "all::desk",
        "all::desk 2",
    ]
    both = [subjects[name] for name in ("all::desk", "all::desk 2")]
    users = [each.simulation.users["user"] for each in both if isinstance(each, Subject)]
    texts = [[message.as_turn for message in user.says or ()] for user in users]
    assert texts == [["Hi.", "Bye.", "Refund me.", "Help!"], ["Hey.", "Bye."]]


def test_no_recording_answers_where_models_answer_by_choice() -> None:
    """A found scenario has no cassette, so that what shows it needs none either."""
    write("desk.pipeline.yaml", SOUND.replace("agents:", "models: {default: openai/x}\nagents:"))
    write("all/r.scenario.yaml", scenario("r", "Hi.", "cassette: r\n"))

    ((_, subject),) = subjects_named(Library(), "all/r.scenario.yaml")

    assert isinstance(subject, Subject)
    assert subject.prepared.scenario.cassette is None


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("all::desk", ["all::desk"]),
        ("all::desk 2", ["all::desk 2"]),
        ("all::the desk", ["all::the desk"]),
        ("all/a", ["all/a::desk", "all/a::desk 2"]),
        ("all/b/s.simulation.yaml", ["all/b/s.simulation.yaml"]),
        ("all/a/one.scenario.yaml::two", ["all/a/one.scenario.yaml::two"]),
        ("all/a/one.scenario.yaml", ["all/a/one.scenario.yaml::desk"]),
        ("all/a/one.scenario.yaml::desk", ["all/a/one.scenario.yaml::desk"]),
    ],
)
def test_a_part_is_named(name: str, known: list[str]) -> None:
    assert [own for own, _ in subjects_named(Library(), name)] == known


def test_what_is_not_there_is_told() -> None:
    Path("empty").mkdir()
    for name, problem in (
        ("none", "there is no such file"),
        ("all/a/one.scenario.yaml::six", "six"),
        ("all::desk 3", "Known:"),
        ("empty", "there is no simulation and no scenario below"),
    ):
        with pytest.raises(SimkitError, match=problem):
            list(subjects_named(Library(), name))


@pytest.mark.slow
def test_the_command_finds_what_breaks_in_scenarios_and_names_the_way_back(simkit: Call) -> None:
    write("all/desk.pipeline.yaml", BROKEN)

    done = simkit("explore", "all/a", "--runs", "40", "--to", "found")

    assert done.code == 1
    assert done.out.count("all/a::desk:\n") == 1
    file = next(Path("found").iterdir())
    text = file.read_text(encoding="utf-8")
    assert "# `simkit explore all/a::desk --runs 40 --seed 0` found it" in text
    assert simkit("replay", str(file)).code == 1


BROKEN_PARTS = {
    "b/no_cassette.simulation.yaml": DESK + "users: {ada: {model: gpt-5, persona: {goal: Pay.}}}\n",
    "b/not_yaml.simulation.yaml": "simulation: [\n",
    "b/no_key.simulation.yaml": DESK + "usrs: {}\n",
    "b/no_pipeline.simulation.yaml": "simulation: lost\npipeline: none.pipeline.yaml\n",
    "b/not_yaml.scenario.yaml": "scenario: [\n",
    "b/no_key.scenario.yaml": scenario("five", "Hi.", "trns: []\n"),
    "b/no_reply.simulation.yaml": DESK + BUYER + "models: {desk: [{calls: {nothing: {}}}]}\n",
}
"""Files that cannot be explored, each for a reason of its own."""


@pytest.mark.parametrize("file", BROKEN_PARTS)
def test_one_that_is_broken_stops_no_other(file: str, simkit: Call) -> None:
    write(f"all/{file}", BROKEN_PARTS[file])

    done = simkit("explore", "all", "--runs", "3")

    assert done.code == 2
    assert done.err.startswith(f"all/{file}:")
    (left_out,) = (line for line in done.out.splitlines() if line.startswith("not explored: "))
    assert left_out.removeprefix("not explored: ").startswith(f"all/{file}")
    for other in ("all/b/s.simulation.yaml::the desk", "all::desk", "all::desk 2"):
        assert f"{other}:\n3 conversations" in done.out
    result = explore("all", runs=3)
    assert (result.conversations, len(result.broken), result.passed) == (9, 1, False)
    assert result.broken[0].startswith(f"all/{file}")


def test_the_only_one_that_is_broken_is_the_commands_error(simkit: Call) -> None:
    write("one/a.simulation.yaml", "simulation: [\n")

    done = simkit("explore", "one")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("one/a.simulation.yaml:")
    with pytest.raises(SimkitError, match=r"one/a\.simulation"):
        explore("one")

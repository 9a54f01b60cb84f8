"""Where a scenario's cassette is, and what recording does with it in every mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.capture.cassettes import load
from simkit.capture.cassettes.traffic import Mode
from simkit.checks.findings import CLAIM
from simkit.core.errors import CassetteInvalid, SourceError
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.session.execution.recorded import Recording, cassette_path
from simkit.session.simulate import Recorded, record, simulate
from simkit.trace.events import ModelFailed, RunFinished
from simkit.trace.store import Trace
from tests.recording import APP, SCENARIO, Provider, completion, echo, prepared, write
from tests.recording import folder as folder
from tests.recording import server as server

NOW = "2026-01-05T09:00:00Z"


def recorded(
    file: Path, mode: Mode = "all", *, keeps_failed: bool = False, place: int = 0
) -> Recorded:
    return record(prepared(file, place), Recording(mode, NOW, keeps_failed))


def test_what_is_recorded_is_replayed_without_a_request(folder: Path, server: Provider) -> None:
    file = write(folder)

    done = recorded(file, "once")
    server.requests.clear()

    assert done.outcome.judgement.findings == ()
    assert done.note == "recorded: 2 interactions in cassettes/desk.yaml"
    assert simulate(prepared(file)).judgement.findings == ()
    assert server.requests == []


@pytest.mark.parametrize("mode", ["none", "verify"])
def test_what_only_replays_needs_a_cassette(folder: Path, mode: Mode) -> None:
    file = write(folder)

    with pytest.raises(SourceError) as error:
        recorded(file, mode)

    assert str(error.value) == (
        f"{file}:6:11: there is no cassette `desk.yaml`\n"
        "  at cassette\n"
        f"  Record it: simkit record '{file}::the boss hears it' --mode once"
    )


def test_once_replays_where_something_is_recorded(folder: Path, server: Provider) -> None:
    file = write(folder)
    recorded(file)
    before = Path("cassettes/desk.yaml").read_bytes()
    server.requests.clear()

    done = recorded(file, "once")

    assert done.note == (
        "nothing was recorded: cassettes/desk.yaml answered; --mode all records it anew"
    )
    assert server.requests == []
    assert Path("cassettes/desk.yaml").read_bytes() == before


def test_new_episodes_adds_what_the_cassette_does_not_answer(
    folder: Path, server: Provider
) -> None:
    file = write(folder)
    recorded(file)
    server.requests.clear()
    longer = SCENARIO.replace("}]\n", "}, {user: bye}]\n")

    done = recorded(write(folder, longer), "new_episodes")

    interactions = load("cassettes/desk.yaml").interactions
    assert done.note == "recorded: 2 interactions in cassettes/desk.yaml"
    assert len(server.requests) == 2
    assert [(each.agent, each.turn, each.call) for each in interactions] == [
        ("clerk", 1, 1), ("boss", 1, 1), ("clerk", 2, 1), ("boss", 2, 1),
    ]  # fmt: skip


def test_calls_are_numbered_as_the_agent_makes_them_also_where_some_are_played(
    folder: Path,
) -> None:
    twice = APP + "def run(text):\n    ask('clerk', text)\n    return ask('clerk', 'again')\n"
    file = write(folder, SCENARIO.replace("boss: clerk: hello", "clerk: again"), twice)
    recorded(file, keeps_failed=True)
    whole = Path("cassettes/desk.yaml").read_text(encoding="utf-8")
    first = whole[: whole.index("- request:", 20)]
    Path("cassettes/desk.yaml").write_text(first + "version: 1\n", encoding="utf-8")

    recorded(file, "new_episodes", keeps_failed=True)

    after = Path("cassettes/desk.yaml").read_text(encoding="utf-8")
    assert after.startswith(first)
    assert [interaction.call for interaction in load("cassettes/desk.yaml").interactions] == [1, 2]


def test_all_records_everything_anew(folder: Path, server: Provider) -> None:
    file = write(folder)
    recorded(file)
    server.answer = lambda request: completion("boss: clerk: hello")

    done = recorded(file)

    interactions = load("cassettes/desk.yaml").interactions
    assert done.note == "recorded: 2 interactions in cassettes/desk.yaml"
    assert [b"boss: clerk: hello" in interaction.response.body for interaction in interactions] == [
        True,
        True,
    ]


@pytest.mark.parametrize("mode", ["none", "once", "new_episodes", "all", "verify"])
def test_a_cassette_that_cannot_be_read_is_an_error_and_stays_as_it_is(
    folder: Path, server: Provider, mode: Mode
) -> None:
    file = write(folder)
    (folder / "cassettes").mkdir()
    cassette = folder / "cassettes" / "desk.yaml"
    cassette.write_text("interactions:\n- request:\n    meth", encoding="utf-8")

    with pytest.raises(CassetteInvalid, match=r"^cassettes/desk.yaml:"):
        recorded(file, mode)

    assert server.requests == []
    assert cassette.read_text(encoding="utf-8") == "interactions:\n- request:\n    meth"


def test_a_failed_scenario_writes_nothing(folder: Path) -> None:
    file = write(folder, SCENARIO.replace("clerk: hello", "clerk: bye"))

    done = recorded(file)

    assert done.note == (
        "nothing was written, since the scenario failed; --keep-failed writes even then"
    )
    assert not Path("cassettes").exists()


def test_what_a_failed_scenario_recorded_is_written_where_that_is_asked_for(folder: Path) -> None:
    file = write(folder, SCENARIO.replace("clerk: hello", "clerk: bye"))

    done = recorded(file, keeps_failed=True)

    assert not done.outcome.passed
    assert done.note == "recorded: 2 interactions in cassettes/desk.yaml"
    assert len(load("cassettes/desk.yaml").interactions) == 2


def test_what_came_before_a_run_that_broke_is_kept_and_gone_on_from(
    folder: Path, server: Provider
) -> None:
    rules = "agents: {clerk: You are the clerk.}"
    broken = SCENARIO.replace("agents: {clerk: You are the clerk., boss: You are the boss.}", rules)
    with pytest.raises(SourceError, match="a model call belongs to no agent"):
        recorded(write(folder, broken), keeps_failed=True)
    server.requests.clear()

    done = recorded(write(folder), "new_episodes")

    assert done.outcome.passed
    assert len(server.requests) == 1
    assert [interaction.agent for interaction in load("cassettes/desk.yaml").interactions] == [
        "clerk",
        "boss",
    ]


def test_a_broken_run_writes_nothing_where_that_is_not_asked_for(folder: Path) -> None:
    broken = SCENARIO.replace(", boss: You are the boss.", "")

    with pytest.raises(SourceError):
        recorded(write(folder, broken))

    assert not Path("cassettes").exists()


TWO = (
    SCENARIO
    + "---\n"
    + SCENARIO.replace("it hears", "x")
    .replace("the boss hears it", "the boss hears more")
    .replace("hello", "bye")
)


def test_scenarios_that_share_a_file_have_their_own_interactions_in_it(
    folder: Path, server: Provider
) -> None:
    file = write(folder, TWO)

    notes = [recorded(file, "once", place=place).note for place in (0, 1)]
    server.requests.clear()
    again = [simulate(prepared(file, place)).judgement.findings for place in (0, 1)]

    assert notes == ["recorded: 2 interactions in cassettes/desk.yaml"] * 2
    assert again == [(), ()]
    assert server.requests == []


def test_recording_one_of_two_anew_leaves_the_other_as_it_was_and_the_order_too(
    folder: Path, server: Provider
) -> None:
    file = write(folder, TWO)
    for place in (0, 1):
        recorded(file, "once", place=place)
    before = load("cassettes/desk.yaml").interactions
    server.answer = lambda request: completion("boss: clerk: hello", created=1)

    recorded(file, "all", place=0)

    interactions = load("cassettes/desk.yaml").interactions
    assert [interaction.scenario for interaction in interactions] == [
        item.scenario for item in before
    ]
    assert interactions[2:] == before[2:]
    assert all(b'"created": 1' in interaction.response.body for interaction in interactions[:2])


def _end(trace: Trace) -> RunFinished:
    """Return the last event of a run."""
    end = trace.events[-1]
    assert isinstance(end, RunFinished)
    return end


def test_two_scenarios_that_ask_the_same_do_not_use_up_each_others_recordings(folder: Path) -> None:
    same = SCENARIO + "---\n" + SCENARIO.replace("hears it", "hears it too")
    file = write(folder, same)
    for place in (0, 1):
        recorded(file, "once", place=place)

    traces = [simulate(prepared(file, place)).trace for place in (1, 0)]

    assert len(load("cassettes/desk.yaml").interactions) == 4
    assert [_end(trace).unplayed for trace in traces] == [(), ()]


def test_a_scenario_that_was_renamed_is_answered_as_before(folder: Path) -> None:
    recorded(write(folder))

    renamed = write(folder, SCENARIO.replace("hears it", "hears all"))

    assert simulate(prepared(renamed)).judgement.findings == ()


def test_what_answers_nothing_is_told_at_the_end_of_the_run(folder: Path) -> None:
    longer = SCENARIO.replace("}]\n", "}, {user: bye}]\n")
    recorded(write(folder, longer))

    outcome = simulate(prepared(write(folder)))

    end = _end(outcome.trace)
    assert [finding.id for finding in outcome.judgement.findings] == ["RUN-04"]
    assert [line.partition(": POST")[0] for line in end.unplayed] == [
        "interactions[2]", "interactions[3]",
    ]  # fmt: skip
    assert end.unplayed[0].endswith("/v1/chat/completions, agent 'clerk' in turn 2")


def test_of_a_shared_file_the_places_are_those_of_the_file(folder: Path) -> None:
    file = write(folder, TWO)
    for place in (0, 1):
        recorded(file, "once", place=place)

    longer = TWO.replace("user: bye", "user: see you")
    trace = simulate(prepared(write(folder, longer), 1)).trace

    failed = next(event for event in trace.events if isinstance(event, ModelFailed))
    assert "nearest: interactions[2], agent 'clerk', turn 1, call 1" in failed.message


def test_drift_is_told_at_the_end_of_the_run(folder: Path) -> None:
    loose = SCENARIO.replace("cassette: desk", "cassette: {file: desk, policy: per-agent}")
    recorded(write(folder, loose))

    trace = simulate(prepared(write(folder, loose.replace("user: hello", "user: hullo")))).trace

    assert _end(trace).drifted == ("agent 'clerk' in turn 1: interactions[0]",)


def test_verify_holds_where_requests_and_shapes_are_as_they_were(
    folder: Path, server: Provider
) -> None:
    file = write(folder)
    recorded(file)
    before = Path("cassettes/desk.yaml").read_bytes()
    server.requests.clear()

    done = recorded(file, "verify")

    assert (done.outcome.judgement.findings, done.note) == ((), "")
    assert len(server.requests) == 2
    assert Path("cassettes/desk.yaml").read_bytes() == before


def test_verify_tells_what_is_answered_in_another_shape(folder: Path, server: Provider) -> None:
    file = write(folder)
    recorded(file)

    def answer(request: HttpRequest) -> HttpResponse:
        result = echo(request)
        body = result.body.replace(b'"object"', b'"thing"').replace(b'"index": 0', b'"index": "a"')
        return HttpResponse(200, result.headers, (body,))

    server.answer = answer

    first = recorded(file, "verify").outcome.judgement.findings[0]

    assert first.what == (
        "cassettes/desk.yaml: agent 'clerk' in turn 1 gets another answer than the recorded one: "
        f"POST {server.url}/v1/chat/completions"
    )
    assert first.where == f"{file}:6:11"
    assert first.context == (
        "- body.object: text",
        "~ body.choices[].index: number → text",
        "+ body.thing: text",
        "if the new answer is right, record again: "
        f"simkit record '{file.name}::the boss hears it' --mode all",
    )


def test_verify_tells_what_is_asked_otherwise(folder: Path) -> None:
    recorded(write(folder))
    file = write(folder, app=APP.replace('ask("boss", first)', 'ask("boss", first + "!")'))

    judgement = recorded(file, "verify").outcome.judgement

    (result,) = [
        finding
        for finding in judgement.findings
        if finding.id == CLAIM and finding.path == ("cassette",)
    ]
    assert result.what == (
        "cassettes/desk.yaml: no recording answers agent 'boss' in turn 1: "
        "POST /v1/chat/completions"
    )
    assert result.context == (
        "nothing was recorded that asks the same",
        "nearest: interactions[1], agent 'boss', turn 1, call 1, has not answered yet",
        "    = 1 message",
        "  ~ messages[1] user",
        "      - clerk: hello",
        "      + clerk: hello!",
        "if the change is meant, record again: "
        f"simkit record '{file.name}::the boss hears it' --mode all",
    )


def test_a_scenario_without_a_cassette_records_nothing(folder: Path) -> None:
    scripted = SCENARIO.replace("cassette: desk\n", "").replace(
        "user: hello,", 'user: hello, replies: {clerk: "x", boss: "boss: clerk: hello"},'
    )

    done = recorded(write(folder, scripted))

    advice = "write `cassette: NAME`"
    assert done.note == f"nothing was recorded: the scenario names no `cassette`; {advice}"


def test_the_nearest_folder_of_cassettes_counts(folder: Path) -> None:
    (folder / "tests" / "desk").mkdir(parents=True)
    (folder / "tests" / "cassettes").mkdir()
    (folder / "cassettes").mkdir()
    file = write(folder / "tests" / "desk")

    assert cassette_path(prepared(file)) == Path("tests/cassettes/desk.yaml")


def test_a_folder_of_cassettes_outside_the_project_does_not_count(folder: Path) -> None:
    (folder / "cassettes").mkdir()
    (folder / "project").mkdir()
    (folder / "project" / "pyproject.toml").write_text("", encoding="utf-8")

    assert cassette_path(prepared(write(folder / "project"))) == Path("project/cassettes/desk.yaml")


def test_a_file_beside_the_scenario_comes_before_a_folder(folder: Path) -> None:
    (folder / "cassettes").mkdir()
    file = write(folder)
    (folder / "desk.json").write_text("{}", encoding="utf-8")
    extras = write(folder, SCENARIO.replace("cassette: desk", "cassette: desk.json"))

    assert cassette_path(prepared(extras)) == folder / "desk.json"
    assert cassette_path(prepared(file.with_name("desk.scenario.yaml"))) == folder / "desk.json"

"""``simkit cassettes``: what is recorded, what nobody uses, what is old, what holds a secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from simkit.capture.cassettes import Cassette, Interaction, encoded, load
from simkit.providers.http import HttpRequest, HttpResponse
from tests.cli.projects import Call, Done, write

SCENARIO = """\
version: 1
scenario: the clerk answers
pipeline: desk:run
cassette: {file: desk, max_age_days: 30}
turns: [{user: hello}]
"""
CHAT = HttpRequest("POST", "https://api.openai.com/v1/chat/completions", (), b'{"model":"m"}')
SEARCH = HttpRequest("GET", "https://search.example.com/?q=x")
ANSWER = HttpResponse(200, (("content-type", "application/json"),), (b"{}",))


def ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


def cassette(
    name: str, *, days: int = 0, scenario: str = "the clerk answers", secret: str = ""
) -> None:
    """Writes a cassette of a model call and another request."""
    chat = HttpRequest(CHAT.method, CHAT.url, (("authorization", secret),) if secret else ())
    items = tuple(
        Interaction(
            request=request, response=ANSWER, scenario=scenario, protocol=protocol,
            recorded_at=ago(days),
        )
        for request, protocol in ((chat, "openai-chat"), (SEARCH, ""))
    )  # fmt: skip
    write(name, encoded(Cassette(Path(name), items)).decode())


@pytest.fixture(autouse=True)
def desk(project: Path) -> None:
    Path("scenarios/good.scenario.yaml").unlink()
    write("scenarios/desk.scenario.yaml", SCENARIO)


def test_cassettes_are_listed_with_what_they_hold(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", days=3)

    size = Path("scenarios/cassettes/desk.yaml").stat().st_size / 1_000
    assert simkit("cassettes") == Done(
        0,
        "scenarios/cassettes/desk.yaml  2 interactions  GET search.example.com, openai-chat  "
        f"{size:.1f} kB  3 days\n"
        "1 cassette\n",
        "",
    )


def test_a_cassette_that_no_scenario_names_is_an_orphan(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml")
    cassette("tests/cassettes/deep/lost.json")

    done = simkit("cassettes")

    orphan = done.out.splitlines()[1]
    assert done.code == 0
    assert orphan.startswith("tests/cassettes/deep/lost.json  2 interactions")
    assert orphan.endswith("0 days  orphan: no scenario names it")
    assert done.out.splitlines()[-1] == "2 cassettes: 1 orphan"
    assert simkit("cassettes", "--strict").code == 1


def test_a_cassette_is_over_age_by_its_scenarios_limit(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", days=31)

    done = simkit("cassettes")

    assert done.out.splitlines()[0].endswith("31 days  over age by 1 day")
    assert done.out.splitlines()[-1] == "1 cassette: 1 over age"
    assert (done.code, simkit("cassettes", "--strict").code) == (0, 1)


def test_a_cassette_at_its_limit_is_not_over_age(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", days=30)

    assert simkit("cassettes", "--strict").code == 0


def test_interactions_of_a_scenario_that_is_gone_are_told(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", scenario="the clerk answered")

    done = simkit("cassettes", "--strict")

    assert done.out.splitlines()[0].endswith("2 interactions of no scenario that names it")
    assert done.code == 1


def test_a_cassette_that_cannot_be_read_is_an_error(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml")
    write("scenarios/cassettes/torn.yaml", "interactions:\n- request:\n    meth")

    done = simkit("cassettes")

    assert done.code == 2
    assert done.out.splitlines()[-1] == "2 cassettes: 1 unreadable"
    assert "scenarios/cassettes/torn.yaml:" in done.out
    assert "it is never overwritten" in done.out


def test_libraries_and_hidden_folders_are_left_alone(simkit: Call) -> None:
    for folder in (".tox/cassettes", "node_modules/x/cassettes", "env/lib/cassettes"):
        cassette(f"{folder}/other.yaml")
    write("env/pyvenv.cfg", "")

    for words in ([], ["scan"]):
        done = simkit("cassettes", *words)
        assert (done.code, done.out) == (2, "")
        assert "no cassette is here: none that a scenario names" in done.err


def test_a_list_for_programs_says_the_same(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", days=40)

    (result,) = json.loads(simkit("cassettes", "--format", "json").out)["cassettes"]

    assert result == {
        "file": "scenarios/cassettes/desk.yaml",
        "scenarios": ["scenarios/desk.scenario.yaml::the clerk answers"],
        "interactions": 2,
        "protocols": {"GET search.example.com": 1, "openai-chat": 1},
        "bytes": Path("scenarios/cassettes/desk.yaml").stat().st_size,
        "recorded_at": result["recorded_at"],
        "days": 40,
        "is_orphan": False,
        "days_over": 10,
        "stale": 0,
        "error": "",
    }


def test_a_folder_that_is_not_there_is_an_error(simkit: Call) -> None:
    assert simkit("cassettes", "nowhere") == Done(
        2, "", "nowhere: there is no such file or folder\n  Here are: scenarios.\n"
    )


KEY = "plain-words-0001"


def test_a_secret_is_found_and_not_shown(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml", secret=KEY)

    assert simkit("cassettes", "scan") == Done(
        1,
        "scenarios/cassettes/desk.yaml:8: a secret, known by the rule `authorization`\n"
        "  at interactions[0].request.headers.authorization\n"
        "1 file: 1 secret\n",
        "",
    )


def test_files_without_a_secret_pass_the_scan(simkit: Call) -> None:
    cassette("scenarios/cassettes/desk.yaml")

    assert simkit("cassettes", "scan") == Done(0, "1 file: no secret found\n", "")


SECRET = "".join(("sk-", "ant-api03-", "aB3dE6gH9jK2mN5p"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2] + b"\n  - {",
        lambda content: content + b"\0",
        lambda content: content + b"\xff\xfe",
        lambda content: b"",
        lambda content: b"- one\n- two\n",
        lambda content: b"interactions: 7\n",
        lambda content: b"other: 7\n",
    ],
    ids=["cut", "NUL", "no UTF-8", "empty", "list", "number", "no interactions"],
)
@pytest.mark.parametrize("words", [[], ["scenarios/cassettes"], ["scenarios/cassettes/desk.yaml"]])
def test_a_damaged_cassette_is_looked_through_and_is_no_success(
    simkit: Call, damage: Callable[[bytes], bytes], words: list[str]
) -> None:
    cassette("scenarios/cassettes/desk.yaml")
    file = Path("scenarios/cassettes/desk.yaml")
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)

    listed, clean = simkit("cassettes"), simkit("cassettes", "scan", *words)
    file.write_bytes(f"# {SECRET}\n".encode() + damaged)
    leaking = simkit("cassettes", "scan", *words)

    assert (listed.code, clean.code, leaking.code) == (2, 2, 2)
    assert "scenarios/cassettes/desk.yaml" in clean.err
    assert "known by the rule `anthropic`" in leaking.out
    assert SECRET not in leaking.out + leaking.err


def test_files_of_other_kinds_below_a_folder_are_looked_through(simkit: Call) -> None:
    write("deploy/app.yaml", "kind: Service\n---\nkind: Pod\n")
    write("deploy/list.json", "[1, 2]")

    assert simkit("cassettes", "scan", "deploy") == Done(0, "2 files: no secret found\n", "")

    write("deploy/cut.yaml", "interactions:\n- request: {")
    assert simkit("cassettes", "scan", "deploy").code == 2


def test_a_path_is_looked_through_whatever_its_folders_are_called(simkit: Call) -> None:
    cassette("fixtures/http/desk.yaml", secret=KEY)

    data = json.loads(simkit("cassettes", "scan", "fixtures", "--format", "json").out)

    assert {key: data[key] for key in ("files", "leaks", "errors")} == {
        "files": 1,
        "leaks": [
            {
                "file": "fixtures/http/desk.yaml",
                "line": 8,
                "at": "interactions[0].request.headers.authorization",
                "rule": "authorization",
            }
        ],
        "errors": [],
    }


def test_a_value_of_the_environment_is_found_wherever_it_stands(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_API_KEY", "plain-words-of-somebody")
    write("scenarios/cassettes/other.txt.yaml", "note: plain-words-of-somebody\n")

    assert simkit("cassettes", "scan", "scenarios/cassettes").out == (
        "scenarios/cassettes/other.txt.yaml:1: a secret, known by the rule `env`\n"
        "1 file: 1 secret\n"
    )


def test_a_file_of_another_recorder_becomes_a_cassette_without_secrets(simkit: Call) -> None:
    request = {
        "method": "POST",
        "uri": CHAT.url,
        "headers": {"authorization": ["Bearer sk-1"]},
        "parsed_body": {"model": "m"},
    }
    response = {"status": {"code": 200}, "headers": {}, "parsed_body": {"text": "fine"}}
    tree = {"version": 1, "interactions": [{"request": request, "response": response}]}
    write("theirs.json", json.dumps(tree))

    done = simkit("cassettes", "import", "theirs.json", "ours.yaml")

    assert done == Done(0, "ours.yaml: 1 interaction from theirs.json\n", "")
    (item,) = load("ours.yaml").interactions
    assert (item.request.body, item.response.body) == (b'{"model":"m"}', b'{"text":"fine"}')
    assert item.protocol == "openai-chat"
    assert "sk-1" not in Path("ours.yaml").read_text(encoding="utf-8")
    again = simkit("cassettes", "import", "theirs.json", "ours.yaml")
    assert again == Done(2, "", "ours.yaml: this file is there, and is not overwritten\n")
    alone = simkit("cassettes", "import", "theirs.json")
    assert (alone.code, alone.out) == (2, "")
    assert "import needs two files: the recorded one, and the new one." in alone.err

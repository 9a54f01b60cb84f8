"""Values of models are the same whether plain functions or pydantic's validators make them."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from simkit.core.errors import SourceError
from simkit.language.yaml import SourceFloat, load_text
from simkit.spec import reading
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.reading import read
from simkit.spec.scenario.apps import CodePipeline, ProgramPipeline
from simkit.spec.scenario.claims import ContextClaims
from simkit.spec.scenario.model import Scenario, Shared, Turn
from simkit.spec.scenario.simulations import Simulation

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("scenarios", "docs", "tests", "features")
KINDS: dict[str, type[BaseModel]] = {
    "scenario": Scenario,
    "simulation": Simulation,
    "code": CodePipeline,
    "program": ProgramPipeline,
    "pipeline": Pipeline,
    "given": Shared,
    "tool_results": Shared,
}
ODD: tuple[Any, ...] = (
    None, True, 0, -1, 2**70, 1.5, "", "word", "${x", [], ["word"], [[]], {}, {"x-own": 1},
    {"wrd": 1}, {"text": "a", "json": 1}, {"$contains": 1}, {"$len": "x"}, {"error": "busy"},
)  # fmt: skip


def documents() -> Iterator[tuple[str, type[BaseModel], Any]]:
    """All documents of the repository's YAML files, each with the model of its kind."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            name = path.relative_to(ROOT).as_posix()
            try:
                parsed = load_text(path.read_text(encoding="utf-8"), name)
            except SourceError:
                continue
            for document in parsed:
                data = document.data if isinstance(document.data, dict) else {}
                kind = next((key for key in KINDS if key in data), "")
                if kind:
                    yield f"{name} {document.index}", KINDS[kind], data


DOCUMENTS = {name: (model, data) for name, model, data in documents()}


def outcome(model: type[BaseModel], data: Any) -> Any:
    """The model, or all that pydantic says about the data."""
    try:
        return read(model, data)
    except ValidationError as problem:
        return [(err["type"], err["loc"], err["msg"]) for err in problem.errors(include_url=False)]


def by_pydantic(model: type[BaseModel], data: Any) -> Any:
    """The same without the functions."""
    with pytest.MonkeyPatch.context() as patch:

        def unsure(reader: object, data: Any) -> BaseModel:
            raise reading._Unsure

        patch.setattr(reading._Reader, "read", unsure)
        return outcome(model, data)


def differences(mine: Any, other: Any, at: str = "") -> Iterator[str]:
    """The places at which two values differ, in types, order and the keys that were given too."""
    if type(mine) is not type(other):
        yield f"{at}: {mine!r} and {other!r}"
    elif isinstance(mine, BaseModel):
        if mine.__pydantic_fields_set__ != other.__pydantic_fields_set__:
            yield f"{at}: keys {mine.__pydantic_fields_set__} and {other.__pydantic_fields_set__}"
        yield from differences(mine.__dict__, other.__dict__, at)
        yield from differences(mine.__pydantic_extra__, other.__pydantic_extra__, f"{at}+")
        yield from differences(mine.__pydantic_private__, other.__pydantic_private__, f"{at}_")
    elif isinstance(mine, dict):
        if list(mine) != list(other):
            yield f"{at}: {list(mine)} and {list(other)}"
        for key in mine:
            yield from differences(mine[key], other.get(key), f"{at}.{key}")
    elif isinstance(mine, (list, tuple)):
        if len(mine) != len(other):
            yield f"{at}: {len(mine)} and {len(other)}"
        for place, pair in enumerate(zip(mine, other, strict=False)):
            yield from differences(*pair, f"{at}[{place}]")
    elif mine != other and mine is not other:
        yield f"{at}: {mine!r} and {other!r}"


def damaged(data: Any, chance: random.Random) -> Any:
    """A copy with one value replaced, one key renamed, or one part removed."""
    copied = copy.deepcopy(data)
    places = [copied]
    for place in places:
        inner = place.values() if isinstance(place, dict) else place
        places += [value for value in inner if isinstance(value, (dict, list)) and value]
    place = chance.choice(places)
    key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
    kind = chance.randrange(4)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[chance.choice([f"{key}s", "x-own", "json", "when", key.upper()])] = place.pop(key)
    else:
        place[key] = copy.deepcopy(chance.choice(ODD))
    return copied


@pytest.fixture(autouse=True)
def _no_turn_that_a_run_has_used() -> None:
    """Equal turns are one value, which has more once it has run."""
    for known in reading._REPEATED.values():
        known.clear()


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_document_is_read_as_pydantic_reads_it(name: str) -> None:
    model, data = DOCUMENTS[name]

    assert not list(differences(outcome(model, data), by_pydantic(model, data)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_damaged_documents_are_read_and_refused_as_by_pydantic(seed: int) -> None:
    chance = random.Random(seed)
    for name, (model, data) in DOCUMENTS.items():
        wrong = damaged(data, chance)

        unlike = list(differences(outcome(model, wrong), by_pydantic(model, wrong)))

        assert not unlike, (name, wrong, unlike)


def test_what_code_changes_in_its_data_changes_no_equal_turn_that_was_read_before() -> None:
    value, claim = {"to": ["billing"]}, ["billing"]
    data = {"user": "Hi", "replies": {"a": {"json": value}}, "expect": {"agents": claim}}
    equal = copy.deepcopy(data)
    head = {"scenario": "a", "pipeline": "p"}
    first, second = read(Scenario, {**head, "turns": [data, data]}).turns
    assert first == second

    value["to"].append("sales")
    claim.append("sales")

    [turn] = read(Scenario, {**head, "turns": [equal]}).turns
    reply: Any = turn.replies["a"]
    assert turn is second
    assert (reply.json_, turn.expect.agents) == ({"to": ["billing"]}, ["billing"])


def test_a_value_that_looks_like_bytes_is_read_as_it_is() -> None:
    head = {"scenario": "a", "pipeline": "p"}
    for value in (b"abc", bytearray(b"abc"), b"abc", bytearray(b"abc")):
        data = {"user": "Hi", "replies": {"a": {"json": value}}}

        [turn] = read(Scenario, {**head, "turns": [data]}).turns

        reply: Any = turn.replies["a"]
        assert type(reply.json_) is type(value)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_shipped_files_need_hardly_any_validator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    total, left = 0, Counter[str]()

    def noted(reader: Any, data: Any) -> BaseModel:
        nonlocal total
        total += 1
        try:
            return plain(reader, data)
        except Exception:
            left[reader._model.__name__] += 1
            raise

    shipped = [
        (model, data)
        for name, (model, data) in DOCUMENTS.items()
        if name.startswith("scenarios/") and isinstance(outcome(model, data), BaseModel)
    ]
    plain = reading._Reader.read
    monkeypatch.setattr(reading._Reader, "read", noted)
    for model, data in shipped:
        read(model, data)

    assert total > 1_000
    # Equal turns are read once, so that these are of what differs.
    assert sum(left.values()) < 0.05 * total, left
    assert not left.keys() & {"Scenario", "Turn", "ReplyLine", "Pipeline", "Agent"}


def test_a_replay_makes_no_validator(tmp_path: Path) -> None:
    (tmp_path / "d.scenario.yaml").write_text(
        "version: 1\npipeline: p\nagents: {a: {instructions: Help.}}\n"
        "flow: {handoffs: {start: a}}\n---\nversion: 1\nscenario: s\npipeline: p\n"
        "turns: [{user: Hi, replies: {a: Hello}, expect: {agents: [a], reply: Hello}}]\n"
    )
    code = (
        "import sys\nfrom simkit.cli import main\n"
        "try: main(['replay', '-q', 'd.scenario.yaml'])\n"
        "except SystemExit as end: assert not end.code\n"
        "late = {'pydantic.plugin._loader', 'importlib.metadata', 'tabulate', 'email', 'socket'}\n"
        "assert not late & sys.modules.keys(), late & sys.modules.keys()\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_equal_claims_of_many_turns_are_one_value_and_others_are_not() -> None:
    claims: list[Any] = [*({"reply": 1},) * 3, {"reply": 1.0}, {"reply": True}, {"reply": "1"}]
    (document,) = load_text("{a: 1.50, b: 1.5}", "numbers.yaml")
    claims += [{"reply": document.data["a"]}, {"reply": document.data["b"]}]

    _, first, same, *others = (
        read(Turn, {"user": "Hello", "expect": each}).expect for each in claims
    )

    assert first is same
    kinds = [int, float, bool, str, SourceFloat, float]
    assert [type(each.reply) for each in (first, *others)] == kinds
    assert [each.reply for each in others] == [1.0, True, "1", 1.5, 1.5]
    assert others[-2].reply.source == "1.50"


def test_a_thread_reads_while_another_one_makes_the_reader_of_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is a key for one of them was an extra section, which nobody checks, for the other."""
    claims = {"includes": [{"$contains": "a"}], "excludes": ["b"], "tokens": 4}
    reader_of, threads, values = reading._of_field, list[Thread](), list[ContextClaims]()

    def slow(field: Any) -> Any:
        # Threads may switch value, where the reader of the key does not exist yet.
        if not threads:
            threads.append(Thread(target=lambda: values.append(read(ContextClaims, claims))))
            threads[0].start()
            threads[0].join()
        return reader_of(field)

    monkeypatch.setattr(reading, "_of_field", slow)
    monkeypatch.setattr(reading, "_READERS", {})
    value = read(ContextClaims, claims)

    assert [value, *values] == [ContextClaims.model_validate(claims)] * 2

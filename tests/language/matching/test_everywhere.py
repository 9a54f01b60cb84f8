"""Every place of a file at which a matcher may stand refuses one that can never hold.

The places are those of the JSON Schemas, so a new one fails here until it is in the table below.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from simkit.bdd.assembling import WHOLE, FeatureText, Places
from simkit.bdd.story import Story
from simkit.core.errors import SourceError
from simkit.language.yaml import path_text
from simkit.matchers import (
    absent,
    all_of,
    contains,
    gt,
    has,
    length,
    message,
    not_,
    partial,
    starts,
)
from simkit.session.simulation import Simulation
from simkit.spec.json_schemas import json_schema_of, schemas
from simkit.spec.scenario.files import Library, items_in
from simkit.spec.scenario.items import simulations_in
from simkit.spec.scenario.model import Shared
from simkit.spec.scenario.simulations import prepare_simulation
from tests.conftest import IS_NIGHTLY

FILE: Final = "t.scenario.yaml"
SIMULATION_FILE: Final = "t.simulation.yaml"
Template = tuple[str | int, ...]
"""A place: ``*`` stands for any key, 0 for any element."""

IMPOSSIBLE: Final[dict[str, Any]] = {
    "a bound beyond the other": {"$gt": 5, "$lt": 3},
    "two values at once": {"$all": ["a", "b"]},
    "a value without a part of it": {"$all": ["a", {"$contains": "b"}]},
    "what is absent and is not": {"$absent": True, "$contains": "x"},
    "a length below nothing": {"$len": {"$lt": 0}},
    "a length that is a text": {"$len": {"$starts": "a"}},
    "a key beside all that there may be": {"$exact": {"a": 1}, "b": 2},
    "denied": {"$not": {"$all": ["a", "b"]}},
    "in a choice": {"$either": [{"$any": True}, {"$all": ["a", "b"]}]},
}
"""What no value can be, whatever the place."""

_RECORD: Final = ["x", ["x"], 7, {"$starts": "x"}, {"$not": "x"}, {"$has": "x"}, {"$gt": 1}]
_MESSAGE: Final = [
    [{"$contains": "x"}], {"$not": ["x"]}, {"role": "robot"}, {"rôle": "user"}, {"$gt": 1},
    {"$has": "x"}, {"user": "a", "assistant": "b"}, {"role": "user", "assistant": "b"},
]  # fmt: skip
_MESSAGES: Final = [
    "x", {"user": "x"}, [["x"]], {"$starts": "x"}, {"$not": {"$has": [["x"]]}},
    *([item] for item in _MESSAGE), *({"$not": {"$has": [item]}} for item in _MESSAGE),
]  # fmt: skip
_NAMES: Final = ["x", [{"name": "x"}], {"$gt": 1}, {"$not": {"$has": [["x"]]}}, {"$not": "x"}]
_NUMBER: Final = ["many", {"$len": 3}, [1], {"a": 1}, {"$not": "many"}, {"$starts": "1"}]
_TEXT: Final = [None, 7, ["x"], {"a": "x"}, {"$gt": 1}, {"$has": "x"}, {"$not": ["x"]}]
_MAPPING: Final = ["x", ["x"], 7, {"$starts": "x"}, {"$not": ["x"]}, {"$gt": 1}, {"$has": "x"}]
_ENTRIES: Final = [
    "x", {"tool": "x"}, {"$starts": "x"}, {"$not": {"$has": "x"}}, {"$not": {"$has": [["x"]]}},
    {"$has": 7}, {"$each": {"$starts": "x"}}, {"$unique": {"of": {"$starts": "x"}}},
]  # fmt: skip

_CONTEXT: Final[dict[str, list[Any]]] = {
    "sections": _NAMES,
    "messages": _MESSAGES,
    "includes.0": _MESSAGE,
    "excludes.0": _MESSAGE,
    "dropped": [*_MESSAGES, [{"why": "window"}]],
    "left_out": _ENTRIES,
    "tools": _NAMES,
    "handoffs": _NAMES,
    "tokens": _NUMBER,
    "share": [*_MAPPING, {"user": "many"}, {"user": {"$starts": "x"}}],
    "prefix": [*_MAPPING, {"tokens": "many"}, {"size": 3}, {"provider": 1}],
    "settings": _MAPPING,
    "*": _MESSAGES,
}
_RUNS: Final[dict[str, list[Any]]] = {
    "received": [*_MAPPING, {"messages": "x"}, {"$not": {"messages": "x"}}, {"total": "x"}],
    "input": [],
    "output": [],
    "update": _MAPPING,
    "reply": [],
    "goal": [["x"], {"a": "x"}, {"$gt": 1}, {"$has": "x"}, {"$not": ["x"]}],
    "messages": _MESSAGES,
}
_CLAIMS: Final[dict[str, list[Any]]] = {
    "agents": ["x", [3], [["a"]], [[]], {"$not": {"$has": [["a"]]}}, [{"$unordered": ["a"]}],
               {"$not": {"$has": [{"name": "a"}]}}, ["a", [["b", "c"], "a"]]],
    "reply": [],
    "state": [*_MAPPING, {"messages": "x"}, {"$not": {"messages": "x"}}, {"total": "x"},
              {"total": {"$not": {"$contains": "x"}}}, {"messages": {"a": 1}}],
    "handoffs": _ENTRIES,
    "tool_calls": _ENTRIES,
    "logs": _ENTRIES,
    "events": _ENTRIES,
    "findings.0.*": [],
    "error": [["x"], 7, {"$not": "rate_limit"}, {"kind": "x"}, {"$in": ["a", "b"]}],
    "interrupt": [],
    "judge.*": [None, ["x"], {"a": "x"}, {"$has": "x"}, {"$type": "string"}, {"$in": [1, "x"]},
                {"$in": [True, False]}, {"$not": {"$gt": "x"}}, {"$schema": {"type": "string"}}],
    "judge.*.is": ["x", ["x"], 7, {"$in": ["a", "b"]}, {"$not": "x"}, {"$has": "a"}],
    **{f"context.*.{name}": nevers for name, nevers in _CONTEXT.items()},
    **{f"runs.*.{name}": nevers for name, nevers in _RUNS.items()},
}  # fmt: skip
_RULES: Final[dict[str, list[Any]]] = {
    "system": _TEXT,
    "messages": _MESSAGES,
    "tools": _NAMES,
    "model": _TEXT,
    "settings": _MAPPING,
    "header": [*_MAPPING, {"X-Agent": "a"}, {"x-agent": ["a"]}, {"x-agent": 7}],
    "sections.*": _MESSAGE,
}
_SERVERS: Final = {"servers.*.match": _TEXT[1:]}
_ROOT: Final = [
    *_MAPPING, {"state": "x"}, {"agent": ["x"]}, {"handoff": "x"}, {"run": {"messages": "x"}},
    {"$not": {"state": ["x"]}},
]  # fmt: skip
_WHEN: Final = [
    *_MAPPING, {"history": "x"}, {"messages": {"user": "x"}}, {"tools": "x"}, {"turn": "two"},
    {"agent": ["x"]}, {"$not": {"history": "x"}}, {"history": {"$not": {"$has": [["x"]]}}},
]  # fmt: skip

_FILTERS: Final = [
    "contracts.0.history.0",
    *(
        f"{text}.{section}.history.filters.0"
        for text in ("agents.*", "defaults")
        for section in ("context.0", "context.0.0")
    ),
]

PLACES: Final[dict[str, dict[str, list[Any]]]] = {
    "scenario": {
        **{f"turns.0.expect.{name}": nevers for name, nevers in _CLAIMS.items()},
        **{f"expect.{name}": nevers for name, nevers in _CLAIMS.items()},
        "turns.0.replies.*.when": _WHEN,
        "turns.0.replies.*.0.when": _WHEN,
        **_SERVERS,
        **{f"agents.*.{name}": nevers for name, nevers in _RULES.items()},
    },
    "simulation": {
        **{f"always.{name}": nevers for name, nevers in _CLAIMS.items()},
        **{f"finally.{name}": nevers for name, nevers in _CLAIMS.items() if name != "error"},
        "never.0": _ENTRIES,
        "models.*.when": _WHEN,
        "models.*.0.when": _WHEN,
        **_SERVERS,
        **{f"agents.*.{name}": nevers for name, nevers in _RULES.items()},
    },
    "pipeline": {
        "agents.*.requires.0": _MESSAGE,
        **{f"{place}.drop": _MESSAGE for place in _FILTERS},
        "contracts.0.rules.0": [*_RECORD, {"to": ["x"]}, {"type": {"$gt": 1}}],
        **{
            f"{text}.{place}.when": _ROOT
            for text in ("agents.*", "defaults")
            for place in ("before.0", "after.0", "context.0.section", "context.0.0.section")
        },
    },
    "code": {**{f"agents.*.{name}": nevers for name, nevers in _RULES.items()}, **_SERVERS},
    "program": {f"agents.*.{name}": nevers for name, nevers in _RULES.items()},
    "use": {f"agents.*.{name}": nevers for name, nevers in _RULES.items()},
}
"""For each place, what can never hold there beside what can hold nowhere."""

NOT_IN_A_SCHEMA: Final[dict[str, dict[str, list[Any]]]] = {
    "scenario": {
        "turns.0.tool_results.*.when": _MAPPING,
        "turns.0.tool_results.*.0.when": _MAPPING,
        "given.state.memories.0.score.0.when": _TEXT[1:],
    },
    "use": {"tool_results.*.when": _MAPPING, "tool_results.*.0.when": _MAPPING},
}
"""Places in values that may be anything else, too."""


def test_the_table_knows_every_place() -> None:
    by_name = {
        kind: {_named(place) for place in _places(item)} for kind, item in _schemas().items()
    }

    expected = {kind: set(places) for kind, places in PLACES.items()}
    expected["simulation"].add("finally.error")  # Refused, whatever it wants.
    assert by_name == expected


def _schemas() -> dict[str, Any]:
    return {**schemas(), "use": json_schema_of(Shared, "use")}


def _places(schema: Any) -> Iterator[Template]:
    """Yields the places of matchers in a schema; of one that holds itself, only the outermost."""
    definitions = schema["$defs"]

    def walk(node: Any, path: Template, observed: frozenset[str]) -> Iterator[Template]:
        if isinstance(node, list):
            for item in node:
                yield from walk(item, path, observed)
        if not isinstance(node, dict):
            return
        name = node.get("$ref", "").rpartition("/")[2]
        if name == "matcher":
            yield path
        elif name and name not in observed:
            yield from walk(definitions[name], path, observed | {name})
        for key in ("anyOf", "oneOf", "allOf"):
            yield from walk(node.get(key), path, observed)
        for key, inner in node.get("properties", {}).items():
            yield from walk(inner, (*path, key), observed)
        for inner in (
            node.get("additionalProperties"),
            *node.get("patternProperties", {}).values(),
        ):
            yield from walk(inner, (*path, "*"), observed)
        for inner in (node.get("items"), node.get("prefixItems")):
            yield from walk(inner, (*path, 0), observed)

    yield from walk(schema, (), frozenset())


def _named(place: Template) -> str:
    """The place as the table names it; all kinds of sections are one."""
    steps = list(place)
    if "context" in steps and steps[-1] == "when":
        steps[-2] = "section"
    return ".".join(map(str, steps))


PIPELINE: Final[dict[str, Any]] = {
    "version": 1,
    "pipeline": "p",
    "channels": {
        "messages": {"reducer": "append"}, "total": {"reducer": "add"},
        "memories": {"reducer": "append", "scope": "project"},
    },
    "agents": {
        "a": {"tools": ["t"], "context": ["history", "memories", "current_message"]},
        "b": {}, "c": {},
    },
    "tools": {"t": {}},
    "contracts": [{"from": "a", "to": "b", "rules": []}],
    "flow": {"handoffs": {"start": "a"}},
}  # fmt: skip
SCENARIO: Final[dict[str, Any]] = {
    "version": 1, "scenario": "s", "pipeline": "p",
    "turns": [{"user": "Hi", "replies": {"a": [{"text": "Yes"}]}}],
}  # fmt: skip
SIMULATION: Final[dict[str, Any]] = {"version": 1, "simulation": "s", "pipeline": "p"}
CODE: Final = {"version": 1, "pipeline": "k", "code": "m:f"}
PROGRAM: Final = {"version": 1, "pipeline": "k", "program": "node k.mjs"}
_KEYS: Final = {"context": "a[0]", "runs": "a[0]", "sections": "mine", "tool_results": "t"}
"""What stands for any key below one; elsewhere an agent."""


def _cases(table: dict[str, dict[str, list[Any]]]) -> Iterator[Any]:
    for document, places in table.items():
        for number, (place, nevers) in enumerate(places.items()):
            # What holds nowhere is the same at every place: by day each is shown one of them, and a
            # third of its own.
            everywhere, first, step = [*IMPOSSIBLE.values()], 0, 1
            if not IS_NIGHTLY:
                everywhere, first, step = [everywhere[number % len(everywhere)]], number % 3, 3
            all_ = [*everywhere, *nevers[first::step]]
            if place.endswith("findings.0.*"):
                all_ = [*({"what": item} for item in all_), {"turn": "x"}, {"agent": ["x"]}]
            yield pytest.param(document, place, all_, id=f"{document} {place}")


def _path_of(document: str, place: str) -> Template:
    path: list[str | int] = []
    for step in place.split("."):
        if step == "*":
            above = str(path[-1])
            step = "id" if above == "0" and "findings" in path else _KEYS.get(above, "a")
            if place.endswith(("context.*.*",)) and len(path) and path[-1] == "a[0]":
                step = "history"
        path.append(0 if step == "0" else "history" if step == "section" else step)
    return tuple(path)


def _make_files(document: str, path: Template, matcher: Any) -> dict[str, str]:
    """Returns files, by name, that hold a matcher at a place."""
    pipeline = copy.deepcopy(PIPELINE)
    scenario = copy.deepcopy(SIMULATION if document == "simulation" else SCENARIO)
    code, shared = copy.deepcopy(PROGRAM if document == "program" else CODE), {"version": 1}
    target: Any = {
        "scenario": scenario, "simulation": scenario, "pipeline": pipeline, "code": code,
        "program": code, "use": shared,
    }[document]  # fmt: skip
    if path[0] in ("agents", "servers") and document in ("scenario", "simulation", "use"):
        scenario["pipeline"] = "m:f"
    elif document in ("code", "program"):
        scenario["pipeline"] = "k.pipeline.yaml"
    if document == "use":
        scenario["use"] = ["u.yaml"]
    _put(target, path, matcher)
    if path[0] == "servers":
        target["servers"]["a"]["mcp"] = {"tools": {"t": {}}}
    for rule in ("before", "after"):
        for agent in (*pipeline["agents"].values(), pipeline.get("defaults", {})):
            for item in agent.get(rule, ()):
                item["writes"] = {"total": 1}
    if "replies" in path:
        lines = scenario["turns"][0]["replies"]["a"]
        (lines[0] if isinstance(lines, list) else lines)["text"] = "Yes"
    if "models" in path:
        lines = scenario["models"]["a"]
        (lines[0] if isinstance(lines, list) else lines)["text"] = "Yes"
    if "judge" in path:
        target["judge"] = "openai/gpt-5-mini"
    if path[-1] == "is":
        _put(target, (*path[:-1], "one_of"), ["a", "b"])
    if "score" in path:
        scenario["given"]["state"]["memories"][0] |= {"text": "x"}
        scenario["given"]["state"]["memories"][0]["score"][0]["score"] = 1
    own = [pipeline, scenario] if scenario["pipeline"] == "p" else [scenario]
    file = SIMULATION_FILE if document == "simulation" else FILE
    files = {file: "\n---\n".join(_yaml(entry) for entry in own), "u.yaml": _yaml(shared)}
    return {**files, "k.pipeline.yaml": _yaml(code)}


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True)


def _put(target: Any, path: Template, matcher: Any) -> None:
    *way, last = path
    for step, following in zip(way, path[1:], strict=True):
        new: Any = [] if following == 0 else {}
        if isinstance(target, list):
            if not target:
                target.append(new)
            elif not isinstance(target[0], type(new)):
                target[0] = new
            target = target[0]
        else:
            if not isinstance(target.get(step), type(new)):
                target[step] = new
            target = target[step]
    if isinstance(target, list):
        target[:] = [matcher]
    else:
        target[last] = matcher


def _refusal(files: dict[str, str]) -> SourceError | None:
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    try:
        library = Library()
        if SIMULATION_FILE in files:
            for item in simulations_in(SIMULATION_FILE, library.cache):
                document = library.documents(item.file)[item.index]
                prepare_simulation(library, item, document)
            return None
        for item in items_in(FILE):
            library.prepared(item)
    except SourceError as problem:
        return problem
    return None


pytestmark = pytest.mark.usefixtures("cwd")


@pytest.mark.parametrize(
    ("document", "place", "nevers"), [*_cases(PLACES), *_cases(NOT_IN_A_SCHEMA)]
)
def test_what_can_never_hold_is_refused_with_its_place(
    document: str, place: str, nevers: list[Any]
) -> None:
    path = _path_of(document, place)
    finding = place.endswith("findings.0.*")
    if finding:
        path = path[:-1]

    # An answer of a judge is never null.
    sound: Any = "a" if "judge" in path else {"$not": {"$eq": None}}
    if finding:
        sound = {"id": "CTX-01", "what": {"$any": True}}
    elif place == "never.0":
        sound = {"kind": sound}

    for never in nevers:
        files = _make_files(document, path, {"id": "CTX-01", **never} if finding else never)
        problem = _refusal(files)

        assert problem is not None, f"{place}: {never}"
        assert problem.at.startswith(path_text(path)), f"{place}: {never}: {problem}"
    # It is refused for the matcher alone.
    assert place in NOT_IN_A_SCHEMA.get(document, {}) or not _refusal(
        _make_files(document, path, sound)
    )


# In features


@pytest.mark.parametrize("name", [*_CLAIMS])
@pytest.mark.parametrize("turn", [0, WHOLE])
def test_a_story_refuses_it_too(name: str, turn: int) -> None:
    Path("p.pipeline.yaml").write_text(_yaml(PIPELINE), encoding="utf-8")
    path = _path_of("scenario", f"turns.0.expect.{name}")[3:]
    claimed = tuple(str(step) for step in path if step != 0)
    nevers = [*IMPOSSIBLE.values(), *_CLAIMS[name]]
    if name == "findings.0.*":
        claimed = ("findings",)
        nevers = [{"id": "CTX-01", "what": value} for value in IMPOSSIBLE.values()]

    # One half in a turn, the other half in the whole.
    for never in nevers if IS_NIGHTLY else nevers[turn == WHOLE :: 2]:
        story = Story(Library(), root=Path(), folders=[Path()])
        story.begin(
            Places(FeatureText("t.feature", "Feature: f\n  Scenario: s\n    Then x\n"), (2, 2)), "s"
        )
        story.lines = (3, 3)
        story.pipeline("p")
        story.say("Hi")
        story.reply("a", "Yes")
        story.last_turn = turn
        story.claim(claimed, never)
        with pytest.raises(SourceError) as problem:
            story.end()
        assert problem.value.where.startswith("t.feature:3"), f"{name}: {never}: {problem.value}"


# In Python


@pytest.mark.parametrize(
    "make",
    [
        lambda: all_of("a", "b"),
        lambda: all_of(gt(5), {"$lt": 3}),
        lambda: not_(all_of("a", contains("b"))),
        lambda: partial({"a": {"$gt": 5, "$lt": 3}}),
        lambda: all_of(absent(), contains("x")),
        lambda: length({"$lt": 0}),
        lambda: message(user=all_of("a", "b")),
        lambda: has(all_of(1, 2)),
    ],
)
def test_a_matcher_in_python_that_no_value_can_be_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match=r"never hold of one value|can never match"):
        make()


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (lambda run: run.context("a"), "x"),
        (lambda run: run.context("a"), {"user": "x"}),
        (lambda run: run.context("a"), ["x"]),
        (lambda run: run.context("a"), has("x")),
        (lambda run: run.context("a"), message(role="robot")),
        (lambda run: run.context("a").section("history"), "x"),
        (lambda run: run.context("a").dropped, "x"),
        (lambda run: run.context("a").sections, has("x")),
        (lambda run: run.context("a").tools, 7),
        (lambda run: run.context("a").handoffs, {"to": "b"}),
        (lambda run: run.context("a").left_out, "x"),
        (lambda run: run.agents, ["a"]),
        (lambda run: run.agents, {"name": "a"}),
        (lambda run: run.handoffs, "b"),
        (lambda run: run.handoffs, starts("b")),
        (lambda run: run.tool_calls, "t"),
    ],
)
def test_what_can_be_in_no_list_of_a_turn_is_refused(of: Any, expected: Any) -> None:
    Path("p.pipeline.yaml").write_text(_yaml(PIPELINE), encoding="utf-8")
    with Simulation("p.pipeline.yaml") as desk:
        run = desk.say("Hi", replies={"a": "Yes"})

        with pytest.raises(ValueError, match="never"):
            assert expected not in of(run)


def test_what_may_be_in_a_list_of_a_turn_is_looked_for() -> None:
    Path("p.pipeline.yaml").write_text(_yaml(PIPELINE), encoding="utf-8")
    with Simulation("p.pipeline.yaml") as desk:
        run = desk.say("Hi", replies={"a": "Yes"})

        assert message(user="Hi") in run.context("a")
        assert contains("Bye") not in run.context("a")
        assert run.context("a")[0] in run.context("a")
        assert "a" in run.agents
        assert ["a", "b"] not in run.agents
        assert "t" in run.context("a").tools
        assert partial({"tool": "t"}) not in run.tool_calls

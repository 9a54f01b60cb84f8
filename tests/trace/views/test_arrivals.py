"""Where the values of a handoff's payload reached its target: one answer for lint and page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from simkit.trace.store import Trace
from simkit.trace.views import view_of
from simkit.viewer.run_data import run_data
from tests.checks.traces import Story, context_message, history, hits_of, ran

INSTRUCTIONS: Final = "Answer within 30 days."
REQUIRED: Final = {"type": "object", "required": ["order", "kind"]}


def handed(
    folder: Path, payload: Any, recipe: str = "instructions, current_message", query: str = ""
) -> Trace:
    line: dict[str, Any] = {"to": "clerk", "payload": payload}
    if query:
        line["query"] = query
    pipeline = {
        "version": 1,
        "pipeline": "p",
        "channels": {"note": {"scope": "session"}},
        "agents": {
            "desk": {"instructions": "Route.", "handoffs": ["clerk"]},
            "clerk": {"instructions": INSTRUCTIONS, "context": yaml.safe_load(f"[{recipe}]")},
        },
        "contracts": [
            {
                "from": "desk", "to": "clerk", "type": "t", "payload": REQUIRED,
                "writes": {"note": "${handoff.payload}"},
            }
        ],
        "flow": {"handoffs": {"start": "desk"}},
    }  # fmt: skip
    replies = {"desk": {"handoff": line}, "clerk": "ok"}
    turn = {"user": "Undo my laundry order 77", "replies": replies}
    scenario = {"version": 1, "scenario": "s", "pipeline": "p", "turns": [turn]}
    return ran(folder, yaml.safe_dump_all([pipeline, scenario], sort_keys=False))


def rows(trace: Trace) -> dict[str, str]:
    """What the page shows: each value's path, and where it went."""
    (handoff,) = run_data(view_of(trace.events), None).handoffs
    return {
        row.path: ", ".join(row.sections) if row.state == "arrived" else row.reason or row.state
        for row in handoff.arrivals
    }


YES_AND_NO: Final = "texts say yes and no in many words"
ANYWAY: Final = "with or without the handoff"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"order": 3, "kind": "un"}, {"order": "lost", "kind": "lost"}),
        ({"order": "A1", "kind": "un"}, {"order": "lost", "kind": "lost"}),
        ({"order": 30, "kind": "undo"}, {"order": f"in instructions, {ANYWAY}", "kind": "lost"}),
        ({"order": 77, "kind": "x"}, {"order": f"in current_message, {ANYWAY}", "kind": "lost"}),
        ({"order": "", "kind": None}, {"order": "an empty value", "kind": "an empty value"}),
        ({"order": [], "kind": True}, {"order": "an empty value", "kind": YES_AND_NO}),
    ],
)  # fmt: skip
def test_what_stands_in_other_words_has_not_arrived(
    tmp_path: Path, payload: Any, expected: dict[str, str]
) -> None:
    assert rows(handed(tmp_path, payload)) == expected


@pytest.mark.parametrize("recipe", ["handoff", "{shared: {from: note}}"])
def test_what_the_handoff_brings_arrives_however_short_it_is(tmp_path: Path, recipe: str) -> None:
    payload = {"order": 30, "kind": "un", "is_new": True, "parts": [{"no": 3}], "why": "late, very"}

    places = rows(handed(tmp_path, payload, f"instructions, {recipe}"))

    assert {*places.values()} == {"shared" if "shared" in recipe else recipe}
    assert [*places] == ["order", "kind", "is_new", "parts[0].no", "why"]


PASSED_ON: Final = """\
version: 1
pipeline: p
channels: {facts: {reducer: merge, scope: session}, seen: {reducer: append, scope: session}}
agents:
  desk: {instructions: Look., writes: {facts: {order: 77, kind: "${run.reply}"}, seen: [desk]}}
  clerk: {instructions: Answer order 77., context: [RECIPE]}
flow: {graph: {nodes: {desk: {start: true}, clerk: {exit: true}}, edges: [{from: desk, to: clerk}]}}
---
version: 1
scenario: s
pipeline: p
turns:
  - {user: Hello, replies: {desk: late and broken, clerk: ok}}
  - {user: Hello again, replies: {desk: late and mended, clerk: ok}}
"""


@pytest.mark.parametrize(
    ("recipe", "readers"),
    [
        ("[instructions, {shared: {from: facts}}]", [[(1, 2, 2), (3, 1, 2)], [(3, 2, 2)]]),
        ("{shared: {from: facts, fields: {kind: kind}}}", [[(1, 1, 2)], [(3, 1, 2)]]),
        ("instructions", [[], []]),
    ],
)
def test_a_channel_names_the_later_calls_that_were_sent_what_was_written(
    tmp_path: Path, recipe: str, readers: Any
) -> None:
    trace = ran(tmp_path, PASSED_ON.replace("RECIPE", recipe))

    writes = [w for w in run_data(view_of(trace.events), None).writes if "facts" in w.update]

    assert readers == [
        [(reader.call, reader.arrived, reader.values) for reader in write.readers.get("facts", ())]
        for write in writes
    ]
    assert all(write.readers["seen"] == () for write in writes)


def test_a_value_inside_a_longer_one_is_not_observable(tmp_path: Path) -> None:
    """The section shows the reason alone."""
    recipe = "instructions, {handoff: {fields: {why: payload.why}}}"

    places = rows(handed(tmp_path, {"order": 31, "kind": "un", "why": "31 days late"}, recipe))

    assert places == {"order": "in handoff, maybe by chance", "kind": "lost", "why": "handoff"}


def test_all_of_many_keys_are_judged(tmp_path: Path) -> None:
    payload = {"order": "", "kind": "x9", **{f"k{place:02}": f"v{place:02}" for place in range(70)}}

    trace = handed(tmp_path, payload)

    assert len(rows(trace)) == 72
    (hit,) = hits_of("HND-12", trace)
    assert hit.what.endswith("in turn 1; its contract requires `kind`")


PAYLOADS: Final[list[dict[str, Any]]] = [
    {"order": order, "kind": kind}
    for order in (3, 30, 77, "", "A-1042", "un", True)
    for kind in ("undo", "late, very", 5)
]


@pytest.mark.parametrize("recipe", ["instructions", "instructions, current_message", "handoff"])
def test_the_lint_names_what_the_page_shows_as_lost(tmp_path: Path, recipe: str) -> None:
    for payload in PAYLOADS:
        trace = handed(tmp_path, payload, recipe)

        lost = [path for path, state in rows(trace).items() if state == "lost"]
        hits = hits_of("HND-12", trace)

        assert bool(hits) == bool(lost), payload
        for hit in hits:
            assert hit.data.get("missing", lost) == lost, payload


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You have 30 days.", "in system, maybe by chance"),
        ("The order: 30.", "system"),
        ("30", "system"),
        ("You refund.", "lost"),
    ],
)
def test_instructions_that_code_makes_may_be_made_of_the_payload(text: str, expected: str) -> None:
    story = Story(["a", "b"], observes=("runs", "handoffs"))
    story.turn("Hello", agent="a")
    story.call()
    story.passes_to("b", payload={"order": 30})
    story.call(context_message("", text))
    story.finish()

    assert rows(story.trace) == {"order": expected}


def test_what_a_model_was_sent_before_brings_nothing() -> None:
    story = Story(["a", "b"], observes=("runs", "handoffs"))
    story.turn("Hello", agent="a")
    story.call(context_message("", "Customer A-1042"))
    story.passes_to("b", payload={"order": "A-1042"})
    story.call(context_message("", "Customer A-1042"), history("s1/b/history", tail=[1]))
    story.finish()

    assert rows(story.trace) == {"order": f"in system, {ANYWAY}"}
    assert hits_of("HND-12", story.trace) == []

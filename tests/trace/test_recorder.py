"""Every event is recorded through one recorder, which has one method for each kind."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.trace import events as e
from simkit.trace.recorder import WHOLE_RUN, EventRecorder, Moment, Position
from simkit.trace.store import Trace

SIMKIT: Final = Path(__file__).resolve().parents[2] / "simkit"
EXCEPTIONS: Final = {
    "adapters/recorder/sessions.py": (
        {"emit"},
        "keeps a turn's events back, and renames their agents",
    ),
    "runtime/journal.py": ({"emit"}, "stores the events from which a session is restored"),
    "session/execution/running.py": (
        {"emit"},
        "adds what fits nothing in the run to its last event",
    ),
    "session/execution/new_process.py": ({"emit"}, "passes on another process's events"),
    "session/simulate.py": ({"RunFinished"}, "asks what a judge would say if the run ended now"),
}
"""The modules that pass whole events on, or look at one that nobody emits: what, and why."""
KINDS: Final = {kind.__name__ for kind in e.AnyEvent.__args__}
MENTIONS: Final = re.compile(rf"\bemit\b|\b(?:{'|'.join(KINDS)})\(")


def emissions(code: str) -> list[tuple[str, int]]:
    """Return where code makes an event, or reaches for a sink's `emit`: a name, and its line."""
    if not MENTIONS.search(code):
        return []
    nodes = list(ast.walk(ast.parse(code)))
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    named = [(node.id, node.lineno) for node in functions if isinstance(node, ast.Name)]
    named += [(node.attr, node.lineno) for node in functions if isinstance(node, ast.Attribute)]
    reached = [
        (node.attr, node.lineno)
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "emit"
    ]
    return sorted({(name, line) for name, line in named if name in KINDS} | {*reached})


@pytest.mark.slow
def test_only_the_recorder_makes_and_emits_events() -> None:
    by_name = {
        file.relative_to(SIMKIT).as_posix(): emissions(file.read_text(encoding="utf-8"))
        for file in SIMKIT.rglob("*.py")
    }
    outside = {
        file: {name for name, _ in places}
        for file, places in by_name.items()
        if places and not file.startswith("trace/")
    }

    assert outside == {file: names for file, (names, _) in EXCEPTIONS.items()}


@pytest.mark.parametrize(
    "code",
    [
        "sink.emit(event)",
        "emit = self._sink.emit",
        "events.append(e.ToolCalled(3, call_id='call1'))",
        "from simkit.trace.events import ToolCalled\nToolCalled(3)",
    ],
)
def test_code_that_emits_an_event_itself_is_noticed(code: str) -> None:
    assert emissions(code) != []


@pytest.mark.parametrize(
    "code",
    [
        "def emit(self, event):\n    pass",
        "isinstance(event, e.ToolCalled)",
        "match event:\n    case e.ToolCalled(tool='look'):\n        pass",
        "recorder.record_tool_call(position, tool='look')",
    ],
)
def test_code_that_reads_or_records_events_is_left_alone(code: str) -> None:
    assert emissions(code) == []


def test_each_kind_of_event_has_one_method() -> None:
    recorder = EventRecorder(Trace(), Moment(5))
    methods = [
        getattr(recorder, name)
        for name in vars(EventRecorder)
        if name.removeprefix("_").startswith("record_")
        and name not in ("record_rejection", "record_handoff")
    ]

    kinds = Counter(type(method(WHOLE_RUN)).__name__ for method in methods)

    assert kinds == Counter(KINDS)


def test_an_event_has_the_time_the_position_and_its_own_facts() -> None:
    trace = Trace()
    recorder = EventRecorder(trace, Moment(5))

    event = recorder.record_reply(Position("s1", 2, "triage", "r1"), call="c1", reply="text")

    assert trace.events == [event]
    assert event == e.ModelReplied(5, "s1", 2, "triage", "r1", call="c1", reply="text")


def test_a_run_begins_at_0_whatever_its_clock_says() -> None:
    event = EventRecorder(Trace(), Moment(5)).record_run_start(WHOLE_RUN, scenario="late")

    assert (event.at, event.scenario) == (0, "late")


def test_the_outcome_of_a_handoff_repeats_what_was_requested() -> None:
    trace = Trace()
    recorder = EventRecorder(trace, Moment(5))
    position = Position("s1", 1, "triage", "r1")
    facts: dict[str, Any] = {
        "handoff": "h1",
        "from_agent": "triage",
        "to_agent": "billing",
        "type": "bill",
        "mode": "transfer",
        "query": "Why?",
        "payload": {"order": 7},
    }

    request = recorder.record_handoff_request(position, call_id="call1", **facts)
    recorder.record_rejection(position, request, reason="no order")
    recorder.record_handoff(position, request, depth=2)

    where = (5, "s1", 1, "triage", "r1")
    assert trace.events[1:] == [
        e.HandoffRejected(*where, **facts, reason="no order"),
        e.HandoffMade(*where, **facts, depth=2),
    ]

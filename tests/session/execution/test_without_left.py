"""A value that an earlier scenario left in a variable, and a request of this one: not in silence.

The scenarios share a process, as in pytest; what is left stands in the source, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from simkit.adapters.recorder.carried_over import forget_all
from simkit.adapters.recorder.left_values import changed_variables
from simkit.session.simulate import simulate
from tests.adapters.running import prepared
from tests.own_processes import OWN_PROCESSES

RIGHT = ["constant", "cache", "choice", "own"]
LEFT = {
    "dictionary": "ROOMS", "default": "BY_GUEST", "entry": "KNOWN", "number": "NIGHTS",
    "truth": "VIP", "name": "LAST", "class": "Rooms", "object": "STORE", "argument": "by_default",
    "attribute": "by_attribute", "closure": "by_closure", "context": "IN_CONTEXT",
    "constant beside it": "ROOMS",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget_all()
    sys.modules.pop("left_rooms", None)
    yield
    sys.modules.pop("left_rooms", None)


def findings_of(name: str, text: str, entry: str = "left_rooms:run") -> list[tuple[str, str, str]]:
    """Simulates a scenario of one turn; returns what is found, or warned of."""
    case = prepared(entry, f"""
        agents: {{desk: {{messages: {{$any: true}}}}}}
        turns: [{{user: {text}, replies: {{desk: Of course.}}}}]
    """)  # fmt: skip
    judgement = simulate(replace(case, item=replace(case.item, name=name))).judgement
    every = [*judgement.findings, *judgement.warnings]
    return [(each.id, each.severity, each.what) for each in every]


@pytest.mark.slow
@OWN_PROCESSES
@pytest.mark.parametrize("place", LEFT)
def test_what_was_left_and_reaches_a_request_is_an_error(place: str) -> None:
    assert findings_of("first", f"book {place}") == []

    ((identity, severity, text),) = findings_of("second", f"ask {place}")

    assert (identity, severity) == ("RUN-08", "E")
    assert "the scenario 'first', which ran before in this process, left it in " in text
    assert text.endswith(f"`left_rooms.{LEFT[place]}`, and without that it is not there")
    assert (f"left_rooms.{LEFT[place]}", "first") in changed_variables()


@OWN_PROCESSES
@pytest.mark.parametrize("place", RIGHT)
def test_what_would_be_there_anyway_is_none(place: str) -> None:
    assert findings_of("first", f"book {place}") == []
    assert findings_of("second", f"ask {place}") == []
    assert findings_of("third", f"book {place}") == []


def test_where_no_process_can_be_copied_it_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(prepare: object) -> None:
        raise OSError

    monkeypatch.setattr("simkit.session.workers.fork_application", refuse)
    findings_of("first", "book dictionary")

    ((identity, severity, text),) = findings_of("second", "ask dictionary")

    assert (identity, severity) == ("RUN-08", "W")
    assert text.endswith("left it in `left_rooms.ROOMS`; it may come from elsewhere")

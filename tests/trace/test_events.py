"""Events: what another process sends is stored as it was stored there."""

from __future__ import annotations

import pickle

import msgspec

from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, items_in


def test_a_pickled_event_is_stored_as_before() -> None:
    library = Library()
    (item, *_) = items_in("scenarios/supervisor_context/goals.scenario.yaml")
    events = run(library.prepared(item)).events
    assert {"StateUpdated", "AgentFinished"} <= {type(event).__name__ for event in events}

    copies = pickle.loads(pickle.dumps(events))

    assert [*map(msgspec.json.encode, copies)] == [*map(msgspec.json.encode, events)]

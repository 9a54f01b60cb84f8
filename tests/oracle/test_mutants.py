"""The comparison can fail: each fault that is put into simkit is seen by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from simkit import reducers
from simkit.context import filters, history, items
from tests.oracle.comparing import differences
from tests.oracle.generator import FLOWS, Draw

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


def keeps_all(message: Any, _committed: Any) -> Any:
    """A filter that filters nothing."""
    return message


def filter_mutant(name: str) -> Mutant:
    """Returns the fault that a filter does nothing."""
    return lambda patch: patch.setitem(filters._NAMED, name, keeps_all)  # type: ignore[arg-type]


def reducer_mutant(name: str, other: Any) -> Mutant:
    """Returns the fault that a reducer does something else."""
    return lambda patch: patch.setitem(reducers.BUILT_IN, name, other)  # type: ignore[arg-type]


def agents_filter_drops_the_user(patch: Patch) -> None:
    made = filters._by_agent

    def by_agent(spec: Any) -> Any:
        kept = made(spec)
        return lambda message, ids: None if message.agent is None else kept(message, ids)

    patch.setattr(filters, "_by_agent", by_agent)


def window_is_one_wider(patch: Patch) -> None:
    start = history.HistoryReader._start
    patch.setattr(history.HistoryReader, "_start", lambda *of: max(0, start(*of) - 1))


def round_starts_anywhere(patch: Patch) -> None:
    patch.setattr(
        history, "_round_start",
        lambda stream, tail, rounds: max(0, len(stream.messages) + len(tail) - rounds),
    )  # fmt: skip


def tokens_are_not_counted(patch: Patch) -> None:
    patch.setattr(history, "_token_start", lambda *of: 0)


def last_is_not_kept(patch: Patch) -> None:
    append = reducers.append
    patch.setattr(reducers, "append", lambda current, update, last=0: append(current, update))


def a_turn_keeps_its_channels(patch: Patch) -> None:
    patch.setattr("simkit.runtime.state.State.end_turn", lambda *of: None)


def every_payload_fits(patch: Patch) -> None:
    patch.setattr("simkit.runtime.passing.reason_against", lambda *of: "")


def state_is_as_it_is_now(patch: Patch) -> None:
    patch.setattr("simkit.runtime.activation.dict", lambda of: of, raising=False)


def a_log_goes_by_time(patch: Patch) -> None:
    patch.setattr("simkit.runtime.conversation.in_blocks", lambda said, *of: list(said))


def every_item_has_the_tag(patch: Patch) -> None:
    patch.setattr(items, "_has_one", lambda *of: True)


MUTANTS: Mapping[str, Mutant] = {
    "tool_messages": filter_mutant("tool_messages"),
    "tool_calls": filter_mutant("tool_calls"),
    "intermediate_ai": filter_mutant("intermediate_ai"),
    "handoffs": filter_mutant("handoffs"),
    "agents": agents_filter_drops_the_user,
    "window": window_is_one_wider,
    "rounds": round_starts_anywhere,
    "tokens": tokens_are_not_counted,
    "append last": last_is_not_kept,
    "merge deep": reducer_mutant("merge_deep", reducers.merge),
    "merge": reducer_mutant("merge", reducers.merge_deep),
    "add": reducer_mutant("add", reducers.replace),
    "union": reducer_mutant("union", reducers.append),
    "by_id": reducer_mutant("by_id", reducers.append),
    "payload": every_payload_fits,
    "state": state_is_as_it_is_now,
    "log of a group": a_log_goes_by_time,
    "tags": every_item_has_the_tag,
    "turn scope": a_turn_keeps_its_channels,
}


LATE = {
    "state", "merge", "merge deep", "turn scope", "handoffs", "window", "rounds", "log of a group",
    "tags",
}  # fmt: skip
"""Faults that only few drawings show."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LATE else ()) for name in MUTANTS]
)
def test_a_fault_in_simkit_is_seen(name: str, monkeypatch: Patch) -> None:
    MUTANTS[name](monkeypatch)

    assert any(
        differences(draw.pipeline, draw.scenario)
        for draw in (Draw(seed, flow=flow) for flow in FLOWS for seed in range(60))
    )

"""Each session's memory is its own, and lasts as long as its driver."""

from __future__ import annotations

from simkit.adapters.framework_driver import SessionMemory
from simkit.runtime.ports import UserTurn


def test_a_session_continues_its_own_memory_and_sees_no_other() -> None:
    memory = SessionMemory[list[str]](lambda turn: [turn.project])
    turns = [
        UserTurn("I am Ada", session="s1"),
        UserTurn("I am Bo", session="s2", project="p2"),
        UserTurn("And now?", session="s1"),
    ]

    for turn in turns:
        memory.of(turn).append(turn.text)

    assert memory.of(turns[0]) == ["p1", "I am Ada", "And now?"]
    assert memory.of(turns[1]) == ["p2", "I am Bo"]


def test_a_memory_that_holds_nothing_is_not_made_again() -> None:
    memory = SessionMemory[list[str]](lambda turn: [])
    first = UserTurn("hi")

    assert memory.of(first) is memory.of(first)

"""However often somebody listens, Python calls one hook, and those who listen no more are gone."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from simkit.core.audit import add_listener, remove_listener


def test_listeners_come_and_go_behind_one_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[Any, ...]] = []

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "simkit.test":
            events.append(arguments)

    add_listener(listen)
    remove_listener(listen)
    hooks: list[object] = []
    monkeypatch.setattr(sys, "addaudithook", hooks.append)

    for number in range(3):
        add_listener(listen)
        sys.audit("simkit.test", number)
        remove_listener(listen)
        sys.audit("simkit.test", "after")

    assert events == [(0,), (1,), (2,)]
    assert hooks == []

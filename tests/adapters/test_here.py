"""What a piece of code belongs to: its context says."""

from __future__ import annotations

import contextvars

from simkit.adapters.observation import ContextScope


def test_what_is_started_inside_belongs_there_for_good() -> None:
    folder = ContextScope[str]("test_here")
    with folder.inside("outer"):
        started = contextvars.copy_context()
        with folder.inside("inner"):
            values = [folder.now(), started.run(folder.now)]
        values.append(folder.now())

    assert values == ["inner", "outer", "outer"]
    assert (folder.now(), started.run(folder.now)) == (None, "outer")


def test_a_place_may_be_left_in_another_context_than_it_was_entered_in() -> None:
    folder = ContextScope[str]("test_here")
    inside, context = folder.inside("a stream"), contextvars.copy_context()

    context.run(inside.__enter__)
    with folder.inside("its reader"):
        inside.__exit__(None, None, None)
        value = folder.now()

    assert value == "its reader"

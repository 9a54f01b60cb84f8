"""What a piece of code belongs to: its context says."""

from __future__ import annotations

import contextvars

from simkit.adapters.scoping import ContextScope


def test_what_is_started_inside_belongs_there_for_good() -> None:
    here = ContextScope[str]("test_here")
    with here.inside("outer"):
        started = contextvars.copy_context()
        with here.inside("inner"):
            found = [here.now(), started.run(here.now)]
        found.append(here.now())

    assert found == ["inner", "outer", "outer"]
    assert (here.now(), started.run(here.now)) == (None, "outer")


def test_a_place_may_be_left_in_another_context_than_it_was_entered_in() -> None:
    here = ContextScope[str]("test_here")
    inside, elsewhere = here.inside("a stream"), contextvars.copy_context()

    elsewhere.run(inside.__enter__)
    with here.inside("its reader"):
        inside.__exit__(None, None, None)
        found = here.now()

    assert found == "its reader"

"""Listeners of scenarios that overlap: each is heard in its own context, while it works."""

from __future__ import annotations

import contextvars
import threading

from simkit.adapters.observation import ContextListeners
from simkit.capture.http.request_router import Owner, owned_by


def test_each_context_has_its_own_listener() -> None:
    ears = ContextListeners[str]("test_ears")
    context = contextvars.copy_context()

    with ears.activate("one"):
        with ears.activate("other"):
            values = [ears.current(), context.run(ears.current)]
        values += [ears.current(), context.run(ears.current)]

    # Who has no listener is heard by the only one there is.
    assert values == ["other", None, "one", "one"]
    assert ears.current() is None


def test_listeners_that_leave_in_the_order_in_which_they_came_leave_nobody_behind() -> None:
    ears = ContextListeners[str]("test_ears")
    scope, other = ears.activate("one"), ears.activate("other")

    scope.__enter__()
    other.__enter__()
    scope.__exit__(None, None, None)
    still = ears.current()
    other.__exit__(None, None, None)

    assert (still, ears.current()) == ("other", None)


def test_a_listener_may_leave_in_another_context_than_it_came_in() -> None:
    ears = ContextListeners[str]("test_ears")
    scope = ears.activate("one")

    contextvars.copy_context().run(scope.__enter__)
    during = ears.current()
    scope.__exit__(None, None, None)

    assert (during, ears.current()) == ("one", None)


def test_code_that_outlives_its_scenario_is_heard_by_who_works_now() -> None:
    ears = ContextListeners[str]("test_ears")
    with ears.activate("one"):
        context = contextvars.copy_context()
    alone = context.run(ears.current)
    with ears.activate("other"):
        now = context.run(ears.current)

    assert (alone, now) == (None, "other")


def test_a_thread_without_a_context_is_heard_where_one_listens_alone() -> None:
    ears = ContextListeners[str]("test_ears")
    texts: list[str | None] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: texts.append(ears.current()))
        thread.start()
        thread.join()

    with ears.activate("one"):
        look()
        with ears.activate("other"):
            look()
        look()
    look()

    assert texts == ["one", None, "one", None]


def test_code_that_outlives_its_turn_is_heard_by_the_next_one_of_its_scenario() -> None:
    ears = ContextListeners[str]("test_ears")
    owner, other = Owner(), Owner()
    with owned_by(owner):
        context = contextvars.copy_context()

    with owned_by(other), ears.activate("other"), owned_by(owner), ears.activate("one"):
        values = [context.run(ears.current)]
    with owned_by(other), ears.activate("other"):
        values.append(context.run(ears.current))

    assert values == ["one", None]

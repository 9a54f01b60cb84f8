"""Listeners of scenarios that overlap: each is heard in its own context, while it works."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

import pytest

from simkit.adapters.observation import ContextListeners, Turn
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


def test_a_listener_that_waits_is_active_once_code_of_its_turn_looks_for_one() -> None:
    ears = ContextListeners[str]("test_ears")
    entered: list[object] = []

    def activate() -> None:
        assert ears.current() is None  # It looks for one itself, and does not begin again.
        entered.append(ears.activate("one"))
        entered[-1].__enter__()  # type: ignore[attr-defined]

    with Turn() as turn:
        turn.defer(ears, activate)
        before = len(entered)
        texts = [contextvars.copy_context().run(ears.current), ears.current()]
        entered[-1].__exit__(None, None, None)  # type: ignore[attr-defined]
        texts.append(ears.current())

    assert (before, len(entered), texts) == (0, 1, ["one", "one", None])


def test_a_thread_without_a_context_wakes_the_listener_of_the_only_turn() -> None:
    ears = ContextListeners[str]("test_ears")
    texts: list[str | None] = []

    def look() -> None:
        thread = threading.Thread(target=lambda: texts.append(ears.current()))
        thread.start()
        thread.join()

    with Turn() as turn:
        turn.defer(ears, ears.activate("one").__enter__)
        with Turn() as inner:
            inner.defer(ears, ears.activate("two").__enter__)
            look()
        look()
    look()

    assert texts == [None, "one", "one"]


def test_code_of_nobody_is_heard_by_no_turn_while_another_one_waits() -> None:
    ears = ContextListeners[str]("test_ears")

    with Turn() as turn, ears.activate("one"):
        before = _in_thread(ears.current)
        with Turn() as other:
            other.defer(ears, ears.activate("two").__enter__)
            meanwhile = _in_thread(ears.current)
        after = _in_thread(ears.current)
        assert turn.wake(ears) is False

    assert (before, meanwhile, after) == ("one", None, "one")


def test_a_listener_that_a_thread_woke_is_that_of_its_turn() -> None:
    ears = ContextListeners[str]("test_ears")

    with Turn() as turn:
        context = contextvars.copy_context()
        turn.defer(ears, ears.activate("one").__enter__)
        woken = _in_thread(ears.current)
        with Turn(), ears.activate("two"):
            texts = [context.run(ears.current), ears.current()]

    assert (woken, texts) == ("one", ["one", "two"])


def test_code_that_outlives_its_turn_wakes_the_next_one_of_its_scenario() -> None:
    ears = ContextListeners[str]("test_ears")
    mine = Owner()
    with owned_by(mine), Turn():
        context = contextvars.copy_context()

    with owned_by(Owner()), Turn(), ears.activate("other"), owned_by(mine), Turn() as next_turn:
        next_turn.defer(ears, ears.activate("one").__enter__)
        text = context.run(ears.current)

    assert text == "one"


def test_a_turn_ends_after_what_a_thread_wakes_in_it_is_active() -> None:
    ears = ContextListeners[str]("test_ears")
    starts, is_over = threading.Event(), threading.Event()
    active: list[bool] = []

    def activate() -> None:
        starts.set()
        active.append(is_over.wait(0.05))

    with Turn() as turn:
        turn.defer(ears, activate)
        thread = threading.Thread(target=ears.current)
        thread.start()
        starts.wait()
    is_over.set()
    thread.join()

    assert active == [False]


def test_a_listener_that_fails_to_wake_fails_each_time() -> None:
    ears = ContextListeners[str]("test_ears")

    def activate() -> None:
        raise ValueError("no")

    with Turn() as turn:
        turn.defer(ears, activate)
        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                ears.current()


def _in_thread(look: Callable[[], str | None]) -> str | None:
    texts: list[str | None] = []
    thread = threading.Thread(target=lambda: texts.append(look()))
    thread.start()
    thread.join()
    return texts[0]

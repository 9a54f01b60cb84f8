"""Values of context variables, put and reset."""

from __future__ import annotations

import contextvars
import gc
from typing import Any

from simkit.core.context_values import Inside, put


def test_a_reset_leaves_a_variable_that_is_set() -> None:
    variable = contextvars.ContextVar[Any]("variable", default=None)

    def work() -> tuple[bool, Any]:
        variable.reset(put(variable, "value"))
        return variable in contextvars.copy_context(), variable.get()

    assert contextvars.Context().run(work) == (True, None)


def test_a_callback_of_the_collector_that_reads_a_variable_keeps_no_freed_value() -> None:
    variable = contextvars.ContextVar[Any]("variable", default=None)

    others = [contextvars.ContextVar[int](f"other {place}") for place in range(40)]

    def read(phase: str, facts: dict[str, int]) -> None:
        variable.get()

    def work() -> None:
        # With some more, removing one makes objects that the collector counts.
        for other in others:
            other.set(1)
        for _ in range(2_000):
            with Inside(variable, {"a": []}):
                pass
            assert variable.get() is None

    before = gc.get_threshold()
    gc.callbacks.append(read)
    gc.set_threshold(1)
    try:
        contextvars.Context().run(work)
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(read)

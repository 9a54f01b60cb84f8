"""Values of context variables, set and reset."""

from __future__ import annotations

import ast
import contextvars
import gc
from pathlib import Path
from typing import Any

import simkit
from simkit.core.context_values import Inside, set_until_reset


def test_a_reset_leaves_a_variable_that_is_set() -> None:
    variable = contextvars.ContextVar[Any]("variable", default=None)

    def work() -> tuple[bool, Any]:
        variable.reset(set_until_reset(variable, "value", None))
        return variable in contextvars.copy_context(), variable.get()

    assert contextvars.Context().run(work) == (True, None)


def test_a_value_is_among_others_meanwhile() -> None:
    variable, values = contextvars.ContextVar[Any]("variable", default=None), ["first"]

    with Inside(variable, "second", values):
        assert (variable.get(), values) == ("second", ["first", "second"])

    assert (variable.get(), values) == (None, ["first"])


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


def test_every_variable_that_is_reset_is_set_until_then() -> None:
    """A file that resets a variable keeps no token of a plain `set`."""
    files = []
    for file in Path(simkit.__path__[0]).rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if ".set(" not in text or ".reset(" not in text:
            continue
        nodes = [*ast.walk(ast.parse(text))]
        values = [node.value for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign))]
        kinds = [
            {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
            for calls in (
                [value for value in values if isinstance(value, ast.Call)],
                [node for node in nodes if isinstance(node, ast.Call) and node.args],
            )
        ]
        if "set" in kinds[0] and "reset" in kinds[1]:
            files.append(file.name)

    # The one function that does so sets the variable twice.
    assert files == ["context_values.py"]

"""Functions of an application that a framework calls."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from simkit.adapters.observation import function_name, observe_result


def trim(messages: list[str]) -> list[str]:
    return messages[-1:]


async def trim_later(messages: list[str]) -> list[str]:
    await asyncio.sleep(0)
    return messages[-1:]


def test_a_function_goes_by_its_name_and_an_object_by_its_class() -> None:
    assert [function_name(item) for item in (trim, functools.partial(trim))] == ["trim", "partial"]


def test_what_is_returned_is_heard_when_it_is_there_and_passed_on() -> None:
    values: list[Any] = []

    at_once = observe_result(trim(["a", "b"]), values.append)
    later = observe_result(trim_later(["a", "c"]), values.append)
    before = list(values)

    assert (before, at_once) == ([["b"]], ["b"])
    assert (asyncio.run(later), values) == (["c"], [["b"], ["c"]])

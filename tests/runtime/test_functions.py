from __future__ import annotations

import asyncio
import os
import socket
from random import random
from time import time
from typing import Any

import pytest

from simkit.core.errors import FunctionFailed
from simkit.runtime.functions import call_function
from tests.building import run_yaml

TEXT = "tests/runtime/test_functions.py"


def shell() -> str:
    os.system("")
    return "told"


async def slow_shell() -> str:
    await asyncio.sleep(3600)
    os.system("")
    return "told"


def fetch() -> None:
    socket.create_connection(("example.com", 443))


async def async_fetch() -> None:
    await asyncio.open_connection("example.com", 443)


def effects_of(function: Any) -> tuple[Any, list[tuple[str, str]]]:
    pairs: list[tuple[str, str]] = []
    result = call_function(
        "app:it", function, report=lambda effect, where: pairs.append((effect, where))
    )
    return result, pairs


def test_effect_of_a_function_is_reported_and_its_result_returned(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytestconfig.rootpath)
    line = shell.__code__.co_firstlineno + 1

    assert effects_of(shell) == ("told", [("process", f"{TEXT}:{line} in shell")])


def test_effect_of_an_async_function_is_reported_and_the_event_loops_own_is_not(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pytestconfig.rootpath)
    line = slow_shell.__code__.co_firstlineno

    assert effects_of(slow_shell) == (
        "told",
        [
            ("sleep", f"{TEXT}:{line + 1} in slow_shell"),
            ("process", f"{TEXT}:{line + 2} in slow_shell"),
        ],
    )


@pytest.mark.parametrize("function", [fetch, async_fetch])
def test_function_that_reaches_for_the_network_fails(function: Any) -> None:
    texts: list[str] = []

    with pytest.raises(FunctionFailed) as failed:
        call_function("app:it", function, report=lambda effect, where: texts.append(effect))

    assert str(failed.value) == (
        "`app:it` raised NetworkRefused: a user's function reached for the network, "
        "example.com:443, which is refused. "
        "Stub the tool with `tool_results`, or pass the data in."
    )
    assert texts == ["network"]


def test_without_a_report_nothing_is_guarded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()

        def connects() -> str:
            with socket.create_connection(address):
                return "connected"

        assert call_function("app:it", connects) == "connected"


def test_an_async_function_runs_also_where_the_caller_is_in_an_event_loop() -> None:
    async def answers() -> str:
        await asyncio.sleep(0)
        return "done"

    async def caller() -> object:
        return call_function("m:answers", answers)

    assert asyncio.run(caller()) == "done"


def joined(_value: Any, update: Any) -> Any:
    return update


def test_a_functions_time_and_chance_do_not_depend_on_functions_called_before() -> None:
    """A turn without functions needs no world; the next one with some gets what it would have."""
    drawn = "{replies: {desk: {function: 'tests.runtime.test_functions:numbers'}}"
    turns = (
        "turns: [{user: A, replies: {desk: a}}, {user: B, replies: {desk: b}}, "
        f"{drawn}, user: C, session: other}}, {drawn}, user: D}}]"
    )
    agents = "agents: {desk: {instructions: Help.}}\nflow: {handoffs: {start: desk}}\n"
    reducer = "channels: {x: {reducer: 'tests.runtime.test_functions:joined'}}\n"

    replies = [
        [turn.reply for turn in run_yaml(channels + agents, turns).view.turns]
        for channels in ("", reducer)
    ]

    assert replies[0] == replies[1]
    assert len(set(replies[0])) == 4


def numbers(_messages: Any) -> str:
    return f"{random()} {time()}"


def test_what_a_function_draws_depends_on_its_turn_alone() -> None:
    function = "function: 'tests.runtime.test_functions:numbers'"
    pipeline = """
    agents: {router: {instructions: R.}, a: {instructions: A.}, b: {instructions: B.}}
    flow: {router: {decide: router, to: [a, b]}}
    """
    drawn = f"{{user: Hi, replies: {{router: x, a: {{{function}}}, b: {{{function}}}}}}}"
    plain = "{user: Hi, replies: {router: x, a: x, b: x}}"

    texts = []
    for first in (plain, drawn):
        view = run_yaml(pipeline, f"turns: [{first}, {drawn}]").view
        texts.append([message.content for message in view.messages.values()][-2:])

    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 2

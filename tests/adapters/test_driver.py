"""The driver of pipelines that are code: what becomes of a turn whose code is cancelled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.runtime.models.script import agents_in
from simkit.session.execution import processes
from simkit.spec.scenario.replies import TurnScript
from tests.adapters.running import run_app

CODE = """
import asyncio

async def gives_up():
    raise asyncio.CancelledError("too late")

async def raises(text):
    return await gives_up() if text == "Stop" else "Hello."

async def cancels_a_task(text):
    task = asyncio.create_task(asyncio.Event().wait())
    if text == "Stop":
        task.cancel("too late")
        await task
    return "Hello."

async def cancels_itself(text):
    if text == "Stop":
        asyncio.current_task().cancel("too late")
        await asyncio.Event().wait()
    return "Hello."

def has_no_loop(text):
    if text == "Stop":
        raise asyncio.CancelledError("too late")
    return "Hello."
"""
PLACES = {
    "raises": "5 in gives_up",
    "cancels_a_task": "14 in cancels_a_task",
    "cancels_itself": "20 in cancels_itself",
    "has_no_loop": "25 in has_no_loop",
}


@pytest.mark.parametrize("name", PLACES)
def test_code_that_is_cancelled_fails_its_turn_and_no_other(name: str, tmp_path: Path) -> None:
    (tmp_path / "cancelled_desk.py").write_text(CODE)

    ran = run_app(
        f"cancelled_desk:{name}",
        """
        app: {path: [.], fresh: true}
        turns:
          - user: Stop
            expect: {error: FunctionFailed}
          - user: Go on
            expect: {reply: Hello.}
        """,
        tmp_path,
    )

    assert ran.judgement.findings == ()
    assert ran.error(1) == (
        "FunctionFailed",
        f"`cancelled_desk:{name}` raised CancelledError: too late, "
        f"at cancelled_desk.py:{PLACES[name]}",
    )
    assert ran.error(2) is None


def test_a_line_for_a_part_that_no_context_has_is_told_with_those_there_are() -> None:
    with pytest.raises(SourceError) as caught:
        run_app("anywhere:run", "turns: [{user: Hi, replies: {a: [{when: {foo: [x]}, text: Y}]}}]")

    assert "known: sections, messages, tools, agent, turn" in str(caught.value)


def test_reply_lines_of_earlier_turns_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def note_size(turns: Sequence[TurnScript]) -> Iterator[str]:
        sizes.append(len(turns))
        return agents_in(turns)

    (tmp_path / "talking_desk.py").write_text("def answer(text):\n    return 'Hello.'\n")
    monkeypatch.setattr(processes, "agents_in", note_size)
    turns = "".join(f"  - user: Hello {number}\n" for number in range(5))

    run_app("talking_desk:answer", f"app: {{path: [.]}}\nturns:\n{turns}", tmp_path)

    assert sizes == [1] * 5

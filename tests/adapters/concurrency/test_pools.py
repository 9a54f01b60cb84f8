"""What is submitted to a thread pool belongs to who submits it, not to who started the worker."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from simkit.adapters.concurrency.pools import (
    PATIENCE_S,
    carrying_contexts,
    hearing_loops,
    keep_in_step,
    taking_turns,
    wait_for_rest,
    wait_for_thread,
)
from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.capture.http.processes import Children
from simkit.capture.http.request_router import passing_through
from simkit.providers.http import HttpRequest
from simkit.report.table import rows_of
from simkit.session.simulate import simulate
from simkit.trace import events as e
from simkit.viewer.run_data import run_data
from tests.adapters.running import prepared
from tests.capture.http.gates import Always, json_answer

name = contextvars.ContextVar[str]("name", default="nobody")


def submit_named(pool: ThreadPoolExecutor, agent: str) -> tuple[str, int]:
    name.set(agent)

    def named(by: str, *, number: int) -> tuple[str, int]:
        return f"{name.get()}{by}", number

    return pool.submit(named, "!", number=3).result()


def test_every_piece_of_work_carries_the_context_of_who_submits_it() -> None:
    gate = Always(json_answer("{}"))
    with ThreadPoolExecutor(1) as pool, carrying_contexts, passing_through(gate):
        pairs = [submit_named(pool, "ann"), submit_named(pool, "ben")]

    assert pairs == [("ann!", 3), ("ben!", 3)]


def test_where_threads_take_no_turns_nothing_waits() -> None:
    wait_for_rest()

    assert not wait_for_thread(lambda: False)


def test_nothing_changes_where_no_scenario_runs() -> None:
    before = ThreadPoolExecutor.submit
    with ThreadPoolExecutor(1) as pool, carrying_contexts:
        completed = contextvars.Context().run(submit_named, pool, "ann")

    assert completed == ("nobody!", 3)
    assert ThreadPoolExecutor.submit is before


def test_the_server_for_child_processes_waits_for_no_turn() -> None:
    turns = ThreadTurns(lambda: 0, lambda at: None)
    children = Children(lambda method, url: None)
    before = turns.submitted()

    with carrying_contexts, taking_turns(turns):
        children.environment({})
    children.close()

    assert turns.submitted() == before + 1


class Closed:
    """A gate that nothing goes through."""

    def take(self, request: HttpRequest) -> None:
        raise AssertionError


async def order_of_two(wait_s: float) -> list[str]:
    """The first thread waits for the second, unless it runs alone."""
    keep_in_step()
    second, ended = threading.Event(), []

    def slow() -> None:
        second.wait(wait_s)
        ended.append("first")

    def fast() -> None:
        ended.append("second")
        second.set()

    await asyncio.gather(asyncio.to_thread(slow), asyncio.to_thread(fast))
    return ended


def test_while_a_scenario_runs_threads_run_one_by_one() -> None:
    with passing_through(Closed()):  # type: ignore[arg-type]
        assert asyncio.run(order_of_two(0.2)) == ["first", "second"]


def test_otherwise_they_run_beside_each_other() -> None:
    assert asyncio.run(order_of_two(60)) == ["second", "first"]


def test_an_error_that_no_run_takes_is_its_loops(caplog: pytest.LogCaptureFixture) -> None:
    async def complain() -> None:
        facts = {"message": "a socket is odd", "transport": None}
        asyncio.get_running_loop().call_exception_handler(facts)

    with hearing_loops:
        asyncio.run(complain())

    assert "a socket is odd" in caplog.text


def test_a_thread_that_waits_for_the_loop_is_not_waited_for() -> None:
    async def answered() -> str:
        return "by the loop"

    async def ask_loop(loop: asyncio.AbstractEventLoop) -> str:
        def work() -> str:
            return asyncio.run_coroutine_threadsafe(answered(), loop).result()

        keep_in_step()
        return await asyncio.to_thread(work)

    async def timed() -> tuple[str, float]:
        started = time.perf_counter()
        return await ask_loop(asyncio.get_running_loop()), time.perf_counter() - started

    with passing_through(Closed()):  # type: ignore[arg-type]
        answer, seconds = asyncio.run(timed())

    assert answer == "by the loop"
    assert seconds < PATIENCE_S / 2


HEAD: Final = """
import _thread
import asyncio
import threading

from openai import AsyncOpenAI, OpenAI


def asked(text):
    sent = [{"role": "system", "content": "You are the desk."}, {"role": "user", "content": text}]
    client = OpenAI(api_key="none", max_retries=0)
    return client.chat.completions.create(model="m", messages=sent).choices[0].message.content


async def awaited(text):
    sent = [{"role": "system", "content": "You are the desk."}, {"role": "user", "content": text}]
    client = AsyncOpenAI(api_key="none", max_retries=0)
    answer = await client.chat.completions.create(model="m", messages=sent)
    return answer.choices[0].message.content


def broken():
    return {}["order"]


async def breaks():
    broken()
"""

LOST: Final = {
    "a thread that is joined": """
        def run(text):
            thread = threading.Thread(target=broken)
            thread.start()
            thread.join()
            return asked(text)
    """,
    "a thread that goes on after the reply": """
        def run(text):
            said = asked(text)
            threading.Thread(target=broken).start()
            return said
    """,
    "a raw thread": """
        def run(text):
            lock = _thread.allocate_lock()
            lock.acquire()
            def work():
                try:
                    broken()
                finally:
                    lock.release()
            _thread.start_new_thread(work, ())
            lock.acquire()
            return asked(text)
    """,
    "a task that nobody awaits": """
        async def run(text):
            asyncio.create_task(breaks())
            return await awaited(text)
    """,
    "a task in a loop of the code's own": """
        async def both(text):
            asyncio.create_task(breaks())
            return await awaited(text)

        def run(text):
            return asyncio.run(both(text))
    """,
    "a task that its own object keeps": """
        class Worker:
            def __init__(self):
                self.task = asyncio.create_task(self.work())

            async def work(self):
                broken()

        async def run(text):
            Worker()
            return await awaited(text)
    """,
    "such a task in a loop of the code's own": """
        class Worker:
            def __init__(self):
                self.task = asyncio.create_task(self.work())

            async def work(self):
                broken()

        async def both(text):
            Worker()
            return await awaited(text)

        def run(text):
            return asyncio.run(both(text))
    """,
    "a thread that ends with what is no Exception": """
        class Stopped(BaseException):
            pass

        def run(text):
            def work():
                raise Stopped("at work")
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return asked(text)
    """,
    "a callback of the loop": """
        async def run(text):
            asyncio.get_running_loop().call_soon(broken)
            return await awaited(text)
    """,
}
HANDLED: Final = {
    "a task of a finalizer, as clients close themselves": """
        class Client:
            def __del__(self):
                asyncio.get_running_loop().create_task(breaks())
                asyncio.create_task(breaks())
                asyncio.ensure_future(breaks())

        async def run(text):
            client = Client()
            del client
            return await awaited(text)
    """,
    "a task that is awaited": """
        async def run(text):
            try:
                await asyncio.create_task(breaks())
            except KeyError:
                pass
            return await awaited(text)
    """,
    "errors that gather returns": """
        async def run(text):
            await asyncio.gather(breaks(), return_exceptions=True)
            return await awaited(text)
    """,
    "a thread that handles its error": """
        def run(text):
            def work():
                try:
                    broken()
                except KeyError:
                    pass
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return asked(text)
    """,
    "a task that is cancelled": """
        async def run(text):
            task = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            task.cancel()
            return await awaited(text)
    """,
    "a task that is awaited in the next turn": """
        tasks = []

        async def run(text):
            while tasks:
                try:
                    await tasks.pop()
                except KeyError:
                    pass
            tasks.append(asyncio.create_task(breaks()))
            return await awaited(text)
    """,
    "a group of tasks of which one fails": """
        async def run(text):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(breaks())
                    group.create_task(asyncio.sleep(60))
            except* KeyError:
                pass
            return await awaited(text)
    """,
    "a thread that exits": """
        def run(text):
            def work():
                raise SystemExit(1)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            return asked(text)
    """,
    "a hook for threads of the code's own": """
        def run(text):
            before, threading.excepthook = threading.excepthook, lambda problem: None
            try:
                thread = threading.Thread(target=broken)
                thread.start()
                thread.join()
            finally:
                threading.excepthook = before
            return asked(text)
    """,
    "a handler of the loop of the code's own": """
        async def run(text):
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            asyncio.create_task(breaks())
            return await awaited(text)
    """,
}
SCENARIO: Final = """\
agents: {desk: {system: {$starts: You are}}}
turns:
  - {user: hi, replies: {desk: hello}}
  - {user: and now, replies: {desk: bye}}
"""


@pytest.fixture
def module(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """A module of a name that no other test has."""
    name = f"lost_{zlib.crc32(request.node.name.encode()):x}"
    (tmp_path / f"{name}.py").write_text(HEAD + "\n\n" + dedent(request.param))
    return f"{name}:run", tmp_path


def findings_of(module: tuple[str, Path], text: str = SCENARIO) -> list[tuple[str, int]]:
    """The lints that find something, with their turns."""
    outcome = simulate(prepared(module[0], text, module[1]))
    return [(finding.id, finding.turn) for finding in outcome.judgement.findings]


@pytest.mark.parametrize("module", LOST.values(), ids=LOST, indirect=True)
def test_an_error_that_nobody_takes_is_told_in_its_turn(
    module: tuple[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    assert findings_of(module) == [("RUN-07", 1), ("RUN-07", 2)]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("module", HANDLED.values(), ids=HANDLED, indirect=True)
def test_an_error_that_is_taken_is_none(module: tuple[str, Path]) -> None:
    assert findings_of(module) == []


@pytest.mark.parametrize("module", LOST.values(), ids=LOST, indirect=True)
def test_two_runs_have_one_digest(module: tuple[str, Path]) -> None:
    first, second = (simulate(prepared(module[0], SCENARIO, module[1])) for _ in range(2))

    assert first.trace.digest() == second.trace.digest()
    assert any(isinstance(event, e.ErrorLost) for event in first.trace.events)


KEEPS: Final = """
    async def breaks_itself():
        me = asyncio.current_task()
        kept.append(me)
        broken()

    kept = []

    async def run(text):
        asyncio.create_task(breaks_itself())
        return await awaited(text)
"""
WELL: Final = """
    async def run(text):
        import lost_before
        lost_before.kept.clear()
        gc.collect()
        return await awaited(text)
"""


def test_an_error_of_one_run_is_not_told_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lost_before.py").write_text(f"{HEAD}\n\n{dedent(KEEPS)}")
    (tmp_path / "lost_after.py").write_text(f"import gc\n{HEAD}\n\n{dedent(WELL)}")

    findings_of(("lost_before:run", tmp_path))

    assert findings_of(("lost_after:run", tmp_path)) == []


def test_an_error_after_the_last_run_is_told_by_python_alone(
    cwd: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept_tasks: list[object] = []
    monkeypatch.setattr(sys, "kept", kept_tasks, raising=False)
    code = f"import sys\n{HEAD}\n\n{dedent(KEEPS)}".replace("kept = []", "kept = sys.kept")
    (cwd / "lost_late.py").write_text(code)
    findings_of(("lost_late:run", cwd))

    # When Python ends, it empties modules before it frees what they keep.
    monkeypatch.setattr("simkit.adapters.concurrency.pools._is_heard", None)
    kept_tasks.clear()
    gc.collect()

    lines = {record.message.partition("\n")[0] for record in caplog.records}
    assert lines == {"Task exception was never retrieved"}


ASKS_IN_A_THREAD: Final = """
    def run(text):
        thread = threading.Thread(target=asked, args=(text,))
        thread.start()
        thread.join()
        return "done"
"""


@pytest.mark.parametrize("module", [ASKS_IN_A_THREAD], ids=["asks"], indirect=True)
def test_a_failure_of_the_provider_that_is_planned_is_none(module: tuple[str, Path]) -> None:
    text = SCENARIO.replace("desk: hello", "desk: {error: rate_limit}")

    assert findings_of(module, text) == []


@pytest.mark.slow
def test_a_run_that_cannot_go_on_prints_nothing_of_its_threads(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(HEAD + "\n\n" + dedent(ASKS_IN_A_THREAD))
    (tmp_path / "desk.scenario.yaml").write_text(
        "scenario: nobody is known\npipeline: desk:run\nturns: [{user: hi}]\n"
    )

    command = [sys.executable, "-m", "simkit", "replay", "desk.scenario.yaml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ended.returncode == 2, ended.stdout
    assert "a model call belongs to no agent" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("module", [LOST["a thread that is joined"]], ids=["lost"], indirect=True)
def test_the_timeline_and_the_page_show_what_was_lost(module: tuple[str, Path]) -> None:
    view = simulate(prepared(module[0], SCENARIO, module[1])).view

    answers = [row.answered for row in rows_of(view) if row.agent == "error"]
    assert len(answers) == 2
    assert "a thread ended" in answers[0]
    assert "KeyError" in answers[0]
    marks = run_data(view, None).marks
    assert len([mark for mark in marks if "a thread ended" in (mark.text or "")]) == 2

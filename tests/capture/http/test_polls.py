"""Code that waits for a process piece by piece: it gets the time that the process takes."""

from __future__ import annotations

import ast
import sysconfig
from pathlib import Path

import pytest

from simkit.capture.http import polls
from tests.adapters.running import run_app
from tests.building import Ran

WAYS = ("wait", "communicate", "run", "join", "poll", "is_alive", "returncode", "exists")
LINTS = "lints: {RUN-02: it starts a process}"


def ran(way: str, seconds: float) -> Ran:
    turn = f"turns: [{{user: {way} {seconds}}}]"
    return run_app("real_waits:run", f"app: {{path: [.]}}\n{LINTS}\n{turn}")


@pytest.mark.parametrize("way", WAYS)
def test_no_virtual_time_passes_however_long_a_process_takes(way: str) -> None:
    quick, slow = ran(way, 0), ran(way, 0.2)

    assert (quick.turn().error, slow.turn().error) == (None, None)
    assert (quick.turn().reply, slow.turn().reply) == ("8.000", "8.000")


def test_a_process_that_never_ends_is_given_up_in_virtual_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(polls, "_PATIENCE_S", 1.0)

    turn = f"app: {{path: [.]}}\n{LINTS}\nturns: [{{user: hi}}]"

    assert run_app("real_waits:endless", turn).turn().reply == "-9"


def test_a_process_that_another_scenario_has_left_changes_no_time() -> None:
    rest = f"app: {{path: [.]}}\n{LINTS}\nturns: [{{user: hi}}]"

    replies = [run_app(f"real_waits:{way}", rest).turn().reply for way in ("left", "slept")]

    assert replies == ["runs", "0.500"]


KNOWN = {
    "subprocess.py": "waits for a process",
    "multiprocessing/pool.py": "gives way to its threads",
    "asyncore.py": "waits without a socket",
    "_android_support.py": "writes a log more slowly",
    "pydoc.py": "waits for its server's thread",
    "asyncio/windows_events.py": "tries a pipe again",
    "_pyrepl/unix_console.py": "a terminal",
    "_pyrepl/windows_console.py": "a terminal",
    "turtle.py": "draws",
}
"""Who of the standard library sleeps between two looks, and for what."""


@pytest.mark.slow
def test_it_is_known_for_what_the_standard_library_sleeps() -> None:
    """The next one that waits for a process is found here."""
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
    files = [file.relative_to(root) for file in root.rglob("*.py")]

    sleepers = {
        file.as_posix() for file in files if not left_out & {*file.parts} and _sleeps(root / file)
    }

    assert sleepers - {*KNOWN} == set()
    assert "subprocess.py" in sleepers


def _sleeps(file: Path) -> bool:
    """Return whether code of a file sleeps for some time."""
    source = file.read_text(encoding="utf-8", errors="replace")
    if "sleep(" not in source:
        return False
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(
        getattr(call.func, "attr", getattr(call.func, "id", "")) == "sleep"
        and call.args
        and ast.unparse(call.args[0]) != "0"
        for call in calls
    )

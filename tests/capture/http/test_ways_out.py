"""Every way to another process or the network is refused, or reported, or listed as not held."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.trace.events import UncontrolledEffect
from tests.adapters.running import run_app
from tests.apps import ways_out
from tests.processes import run_python

ROOT = Path(__file__).parents[3]
NOT_HELD = (
    *("`ctypes`", "C extensions", "connections that exist already", "`os.posix_spawn`"),
    *("`multiprocessing`", "heeds no proxy", "`os.exec*`", "`_posixsubprocess`"),
)
"""What SECURITY.md must list."""


def went(way: str) -> list[tuple[str, str]]:
    """Goes one way in a scenario; returns effects with the file that caused them."""
    ran = run_app("ways_out:run", f"turns: [{{user: {way}, expect: {{reply: done}}}}]")
    assert ran.turn().reply == "done"
    effects = ran.events(UncontrolledEffect)
    assert {finding.id for finding in ran.judgement.findings} == {"RUN-02"}
    return [(effect.effect, effect.where.partition(":")[0]) for effect in effects]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("way", ways_out.PROCESSES)
def test_every_process_that_code_starts_is_reported_with_its_place(way: str) -> None:
    assert set(went(way)) == {("process", "ways_out.py")}


@pytest.mark.parametrize("way", ways_out.NATIVE)
def test_native_code_that_is_loaded_is_reported_with_its_place(way: str) -> None:
    assert went(way) == [("native code", "ways_out.py")]


@pytest.mark.parametrize("way", ways_out.NETWORK)
def test_every_way_to_the_network_is_refused(way: str) -> None:
    error = ""
    try:
        ended = run_app("ways_out:run", f"turns: [{{user: {way}}}]").turn().error
        error = ended.type if ended is not None else ""
    except SourceError as problem:  # A request that no provider takes.
        error = str(problem)

    assert re.search(r"^NetworkRefused$|127\.0\.0\.1:9", error)


@pytest.mark.parametrize("way", ways_out.CLIENTS)
def test_a_client_that_connects_by_itself_is_refused_by_its_name(way: str) -> None:
    pytest.importorskip(way.partition(" ")[0])
    error = run_app("ways_out:run", f"turns: [{{user: {way}}}]").turn().error

    assert error is not None
    assert error.type == "NetworkRefused"
    assert f"127.0.0.1:9, with {way.partition(' ')[0]}, in which simkit" in error.message


@pytest.mark.parametrize("way", ways_out.CLIENTS)
def test_a_client_that_connects_by_itself_reaches_hosts_that_are_allowed(way: str) -> None:
    pytest.importorskip(way.partition(" ")[0])
    yaml = f"allow_hosts: [127.0.0.1]\nturns: [{{user: {way}}}]"
    error = run_app("ways_out:run", yaml).turn().error

    assert error is not None
    assert "refused" not in error.type
    assert re.search("connect", error.message, re.IGNORECASE)


@pytest.mark.slow
@pytest.mark.parametrize("way", ways_out.LATER)
def test_what_outlives_a_scenario_reaches_no_network(way: str) -> None:
    code = f"""
import tests.apps.ways_out, signal, sys
sys.modules["ways_out"] = tests.apps.ways_out
from tests.adapters.running import run_app
ran = run_app("ways_out:run", "turns: [{{user: {way}}}]")
assert ran.turn().reply == "done"
tests.apps.ways_out.OVER.set()
if {way!r} == "signal":
    signal.raise_signal(signal.SIGTERM)
"""
    done = run_python("-c", code, folder=ROOT)

    assert "NetworkRefused: code of a scenario that is over reached" in done.stderr


def test_there_are_enough_ways() -> None:
    ways = (ways_out.PROCESSES, ways_out.NATIVE, ways_out.NETWORK)
    assert sum(map(len, ways)) >= 32


def test_what_is_not_held_is_listed() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    section = text.partition("## What cannot be held")[2].partition("\n## ")[0]

    assert [words for words in NOT_HELD if words not in section] == []


CLI = """
import os, sys, time, urllib.request, urllib.error
while True:  # as one that never stops trying: a run that waits for it never ends
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    try:
        urllib.request.urlopen(urllib.request.Request(url, b"{}"))
    except urllib.error.HTTPError:
        time.sleep(0.1)
"""


@pytest.mark.parametrize("start", ["subprocess.run(CLI)", "asyncio.run(started())"])
def test_a_child_that_asks_a_model_ends_the_run_at_once(tmp_path: Path, start: str) -> None:
    (tmp_path / "cli.py").write_text(CLI)
    (tmp_path / "sdk_app.py").write_text(
        textwrap.dedent(f"""
            import asyncio, subprocess, sys
            CLI = [sys.executable, {str(tmp_path / "cli.py")!r}]

            async def started():
                process = await asyncio.create_subprocess_exec(*CLI)
                await process.wait()

            def run(text):
                {start}
                return "done"
            """)
    )

    with pytest.raises(SourceError) as raised:
        run_app("sdk_app:run", "app: {path: [.]}\nturns: [{user: Hi}]", tmp_path)

    sys.modules.pop("sdk_app", None)
    assert re.search(r"a process that the pipeline started asks a model: POST", str(raised.value))
    assert "point the other to `simkit serve`" in str(raised.value)

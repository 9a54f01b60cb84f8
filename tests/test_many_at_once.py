"""Many runs in one folder, many recordings of one file: each keeps what is its own."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simkit.capture.cassettes import Keying, load, save
from simkit.capture.cassettes.values import Interaction
from simkit.core.redact import Redactor
from simkit.providers.http import HttpResponse
from simkit.report.last_run import Ledger, RunEntry, make_folder
from tests.capture.cassettes.requests import chat

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say., handoffs: []}}
flow: {handoffs: {start: a}}
"""
SCENARIO = """\
---
version: 1
scenario: number %d
pipeline: echo
turns: [{user: hi, replies: {a: hello}, expect: {reply: hello}}]
"""
SAVES = """\
import sys
from tests.test_many_at_once import saved
saved(sys.argv[1], int(sys.argv[2]))
"""


def saved(path: str, number: int) -> None:
    """Save ten interactions of a scenario, one after the other."""
    for call in range(10):
        item = Interaction(
            request=chat(f"{number} {call}"), response=HttpResponse(200, (), (b"{}",)),
            agent="a", turn=1, call=call + 1, scenario=f"s{number}",
        )  # fmt: skip
        save(path, [item], Keying(Redactor({})))


def python(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=cwd, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scenarios").mkdir()
    for number in range(6):
        text = PIPELINE + SCENARIO % number
        (tmp_path / f"scenarios/{number}.scenario.yaml").write_text(text)
    return tmp_path


@pytest.mark.slow
def test_runs_at_once_in_one_folder_leave_one_whole_run(folder: Path) -> None:
    running = [
        python("-m", "tests.cli.in_processes", "replay", *chosen, "-q", cwd=folder)
        for chosen in (["scenarios"], ["scenarios/1.scenario.yaml"], ["scenarios", "-j", "2"])
    ]
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out

        last = json.loads((folder / ".simkit/last.json").read_text())
        assert last["scenarios"]

    texts = sorted(str(file.relative_to(folder)) for file in folder.glob(".simkit/traces/*"))
    assert texts == sorted(entry["trace"] for entry in last["scenarios"])
    assert list(folder.glob(".simkit/runs/*")) == []
    judged = python("-m", "simkit", "judge", "-q", cwd=folder)
    out, _ = judged.communicate(timeout=120)
    assert judged.returncode == 0, out
    assert f"{len(texts)} scenario" in out


def test_a_folder_that_another_run_makes_in_the_meantime_is_no_foreign_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, exists = tmp_path / ".simkit", Path.exists
    other = Ledger(folder)

    def exists_before(path: Path) -> bool:
        is_there = exists(path)
        if path.name == ".gitignore":
            monkeypatch.undo()
            other.begin()
        return is_there

    monkeypatch.setattr(Path, "exists", exists_before)
    make_folder(folder)
    other.end()

    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_threads_that_keep_and_close_never_lose_or_mix_a_run(tmp_path: Path) -> None:
    def run(number: int) -> None:
        ledger = Ledger(tmp_path / ".simkit")
        names = [f"f::{number}-{n}" for n in range(4)]
        remaining = [ledger.keep(name, b'{"run":%d}\n' % number) for name in names]
        entries = [
            RunEntry(name, "held", "", trace) for name, trace in zip(names, remaining, strict=True)
        ]
        ledger.close(entries, [])
        with ledger.locked():
            last = ledger.last()
            assert last is not None
            numbers = {Path(entry.trace).read_bytes() for entry in last.scenarios}
            assert len(numbers) == 1
            assert len(last.scenarios) == 4
        ledger.end()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run, range(40)))

    assert list((tmp_path / ".simkit/runs").iterdir()) == []


def test_what_a_killed_run_left_is_removed_and_a_live_one_stays(tmp_path: Path) -> None:
    folder = tmp_path / ".simkit"
    live = Ledger(folder)
    remaining = live.keep("f::live", b"{}\n")
    (folder / "runs/run-killed").mkdir()
    (folder / "runs/run-killed/x.jsonl").write_text("{}")

    other = Ledger(folder)
    other.close([], [])
    other.end()

    assert not (folder / "runs/run-killed").exists()
    live.close([RunEntry("f::live", "held", "", remaining)], [])
    assert Path(remaining).read_bytes() == b"{}\n"


@pytest.mark.slow
def test_judge_says_that_a_trace_of_the_last_run_is_missing(folder: Path) -> None:
    python("-m", "simkit", "replay", "-q", cwd=folder).communicate(timeout=120)
    path = sorted(folder.glob(".simkit/traces/*.jsonl"))[0]
    path.unlink()

    judged = python("-m", "simkit", "judge", cwd=folder)
    out, _ = judged.communicate(timeout=120)

    assert judged.returncode == 2
    assert f".simkit/traces/{path.name}: No such file" in out
    assert "6 scenarios: 5 passed, 1 error" in out


@pytest.mark.slow
def test_processes_that_record_one_file_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.yaml"
    running = [python("-c", SAVES, str(path), str(number), cwd=ROOT) for number in range(4)]
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out

    interactions = load(path).interactions

    assert sorted((item.scenario, item.call) for item in interactions) == [
        (f"s{number}", call + 1) for number in range(4) for call in range(10)
    ]
    assert [file.name for file in path.parent.iterdir()] == ["a.yaml"]


@pytest.mark.skipif(os.name == "nt", reason="folders are locked by a file there")
@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_written_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*of: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    ledger = Ledger(tmp_path / ".simkit")

    saved(str(tmp_path / "a.yaml"), 1)
    ledger.close([RunEntry("s", "held")], [])
    ledger.end()

    assert len(load(tmp_path / "a.yaml").interactions) == 10
    last = ledger.last()
    assert last is not None
    assert [entry.id for entry in last.scenarios] == ["s"]

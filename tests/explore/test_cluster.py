"""A campaign on a dask cluster comes to the same, whatever dies meanwhile."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from simkit.core.errors import SimkitError
from simkit.explore import cluster
from simkit.explore.chunks import Chunk
from simkit.explore.cluster import answer_here, end_processes
from simkit.explore.journal import fingerprints
from simkit.explore.processes import Answer, Setup, Task, answer_to, versions
from tests.campaigns import FILE, SIMULATION, campaign, files_in
from tests.cli.projects import Call, without_times, write
from tests.explore.test_campaigns import Running
from tests.explore.test_campaigns import running as running

distributed = pytest.importorskip("distributed")


class Dask:
    """A scheduler and workers, each in a process of its own that a test may kill."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._all: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()
        self.workers = [self.start_worker() for _ in range(2)]

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start the scheduler, and wait until it listens."""
        process = self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.1)
        raise AssertionError("the scheduler does not listen")

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker with one thread."""
        return self._start("dask_worker", self.address, "--nthreads", "1", "--no-nanny")

    def _start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        self._all.append(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{name}", *options, "--no-dashboard"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        )
        return self._all[-1]

    def end(self) -> None:
        """Kill what is left."""
        for process in self._all:
            process.kill()
            process.wait()


@pytest.fixture
def dask() -> Iterator[Dask]:
    own = Dask()
    with distributed.Client(own.address, timeout=60, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=120)
    yield own
    own.end()


@pytest.mark.slow
def test_two_workers_come_to_the_same_as_one_process() -> None:
    assert campaign("--cluster", "local", "-j", "2") == campaign()


@pytest.mark.slow
def test_two_workers_run_every_conversation_as_one_process_does() -> None:
    every = ("--exhaustive", "--turns", "1", "--coverage", "coverage.html")

    assert campaign(*every, "--cluster", "local", "-j", "2") == campaign(*every)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_a_chunk_that_runs_again(
    dask: Dask, running: Callable[..., Running]
) -> None:
    started = running("--runs", "400", "--cluster", dask.address)
    started.wait_for_chunks(1)
    dask.workers[0].kill()
    out, err = started.ended()

    assert "note: 2 conversations at once; dashboard: http://127.0.0.1:" in err
    assert {"out": without_times(out), "found": files_in("found")} == campaign(runs="400")


@pytest.mark.slow
def test_a_scheduler_that_is_gone_ends_it_and_the_command_goes_on_later(
    dask: Dask, simkit: Call
) -> None:
    write(FILE, SIMULATION)

    def kill_after_a_chunk() -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            journals = list(Path(".simkit").glob("explore/*/*/journal.jsonl"))
            if journals and journals[0].read_bytes().count(b"\n") > 1:
                break
            time.sleep(0.02)
        dask.scheduler.kill()

    killer = threading.Thread(target=kill_after_a_chunk)
    killer.start()
    ended = simkit("explore", FILE, "--runs", "400", "--cluster", dask.address)
    killer.join()

    assert (ended.code, ended.out) == (2, "")
    assert f"the scheduler at {dask.address} is gone" in ended.err
    assert "start the cluster again, then the same command goes on from there" in ended.err
    done = simkit("explore", FILE, "--runs", "400")
    assert "goes on after" in done.err
    assert {"out": done.out, "found": files_in("found")} == campaign(runs="400")


@pytest.mark.parametrize("status", ["running", "connecting", "closed"])
def test_a_lost_connection_is_told_before_the_client_knows_of_it(status: str) -> None:
    lost = object.__new__(cluster.Cluster)
    lost._address = "tcp://there:1"
    lost._client = Mock(status=status)
    lost._client.nthreads.side_effect = distributed.comm.CommClosedError("in <TCP (closed)>")

    with pytest.raises(SimkitError, match="the scheduler at tcp://there:1 is gone"):
        _ = lost.wave


def test_an_address_without_a_scheduler_is_told(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(FILE, SIMULATION)
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)

    done = simkit("explore", FILE, "--cluster", "tcp://127.0.0.1:9")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--cluster: no dask scheduler answers at tcp://127.0.0.1:9: ")
    assert done.err.endswith(
        "Start one with `dask scheduler`, and workers with `dask worker ADDRESS`.\n"
    )
    wrong = simkit("explore", FILE, "--cluster", "nowhere://x")
    assert wrong.code == 2
    assert "Traceback" not in wrong.err


def test_a_missing_library_is_named_with_what_to_install(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(FILE, SIMULATION)
    monkeypatch.setitem(sys.modules, "distributed", None)

    done = simkit("explore", FILE, "--cluster", "local")

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "--cluster needs dask.distributed, which is not installed here: "
        "pip install 'distributed>=2024.8' 'hypothesis>=6.100'\n"
    )


def task(folder: Path, **changes: Any) -> Task:
    facts: dict[str, Any] = {
        "name": FILE,
        "profile": None,
        "turns": 2,
        "measures": False,
        "folder": str(folder),
        "files": fingerprints([FILE]),
        "versions": versions(),
    }
    return Task(setup=Setup(**{**facts, **changes}), chunk=Chunk(0, 0, 1, 3))


def test_a_worker_that_would_run_something_else_says_so(project: Path) -> None:
    write(FILE, SIMULATION)
    whole = answer_to(task(project))
    assert whole.tally is not None
    assert whole.tally.runs == 3

    other = answer_to(task(project, files={FILE: "0"}))
    assert other.error.startswith(f"{project / FILE}: this file is another one there\n  Give wo")
    missing = answer_to(task(project, files={"a.py": "0"}))
    assert missing.error.startswith(f"{project / 'a.py'}: this file is not there\n  Give workers")
    older = answer_to(task(project, versions={"hypothesis": "1.0"}))
    assert older.error.startswith("it has hypothesis ")
    assert older.error.endswith("Install hypothesis==1.0 there.")
    unknown = answer_to(task(project, name="gone.simulation.yaml"))
    assert unknown.error.startswith("gone.simulation.yaml: there is no such file or folder\n")
    assert not any(answer.is_bug for answer in (other, missing, older, unknown))


@pytest.mark.slow
def test_a_machine_without_the_folder_says_so(project: Path) -> None:
    write(FILE, SIMULATION)

    def answer(folder: Path) -> Answer:
        return msgspec.json.decode(answer_here(msgspec.json.encode(task(folder))), type=Answer)

    assert answer(project / "gone").error.startswith(f"there is no folder {project / 'gone'}\n  Gi")
    first, second = answer(project), answer(project)
    end_processes()
    assert first.tally is not None
    assert first == second

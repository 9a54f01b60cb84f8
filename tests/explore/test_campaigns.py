"""A campaign comes to the same in any number of processes, and goes on after it was killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from simkit.checks.findings import Finding
from simkit.cli.explore import progress_text
from simkit.core.files import Lock
from simkit.core.redact import Redactor
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog, TurnLog
from simkit.explore.chunks import CauseTally, Chunk, Example, Tally
from simkit.explore.claims import Part, Reach
from simkit.explore.journal import KEPT_MAX, Journal, Memory
from tests.campaigns import FILE, SIMULATION, campaign, files_in
from tests.cli.conftest import ROOT
from tests.cli.projects import Call, write


@pytest.mark.slow
def test_one_seed_comes_to_the_same_in_one_process_and_in_several() -> None:
    alone = campaign()

    assert len(alone["found"]) > 2
    assert campaign("-j", "2") == alone
    assert campaign("-j", "3") == alone
    assert campaign("--seed", "1") != alone


class Running:
    """A campaign in a process group of its own, which a test stops."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simkit", "explore", FILE, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )

    def wait_for_chunks(self, count: int) -> None:
        """Wait until the journal has so many finished chunks."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            journals = list(Path(".simkit").glob("explore/*/*/journal.jsonl"))
            if journals and journals[0].read_bytes().count(b"\n") > count:
                return
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)
        raise AssertionError("no chunk was finished")

    def ended(self) -> tuple[str, str]:
        """Return what it printed."""
        return self.process.communicate(timeout=120)


@pytest.fixture
def running(project: Path) -> Iterator[Callable[..., Running]]:
    """Starts campaigns, and ends what is left of them."""
    started: list[Running] = []

    def start(*options: str) -> Running:
        started.append(Running(*options))
        return started[-1]

    write(FILE, SIMULATION)
    yield start
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-j", "2")], ids=["alone", "two processes"])
def test_a_killed_campaign_goes_on_where_it_was(
    options: tuple[str, ...], running: Callable[..., Running], simkit: Call
) -> None:
    killed = running("--runs", "400", *options)
    killed.wait_for_chunks(2)
    os.killpg(killed.process.pid, signal.SIGKILL)
    killed.ended()
    # What was being written when it was killed.
    (journal,) = Path(".simkit").glob("explore/*/*/journal.jsonl")
    with journal.open("ab") as stream:
        stream.write(b'{"chunk":7,"ta')

    done = simkit("explore", FILE, "--runs", "400", *options)

    went_on = re.search(
        r"note: goes on after (\d+) of 8 parts, which an earlier call ran", done.err
    )
    assert went_on is not None, done.err
    assert 2 <= int(went_on[1]) < 8
    assert {"out": done.out, "found": files_in("found")} == campaign(runs="400")
    assert not list(Path(".simkit").glob("explore/*/*/journal.jsonl"))


EXHAUSTIVE: Final = ("--exhaustive", "--turns", "2")
MANY: Final = "1500"
"""So many that two slices of a second do not end them."""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-j", "2")], ids=["alone", "two processes"])
def test_a_killed_enumeration_goes_on_where_it_was(
    options: tuple[str, ...], running: Callable[..., Running], simkit: Call
) -> None:
    call = ("--runs", MANY, *EXHAUSTIVE, *options)
    for count in (1, 2):
        killed = running(*call)
        killed.wait_for_chunks(count)
        os.killpg(killed.process.pid, signal.SIGKILL)
        _, err = killed.ended()
        assert ("note: goes on after " in err) == (count > 1)
    (journal,) = Path(".simkit").glob("explore/*/*/journal.jsonl")
    with journal.open("ab") as stream:
        stream.write(b'{"slice":{"sta')

    done = simkit("explore", FILE, *call)

    assert re.search(r"goes on after [\d,]+ conversations, which an earlier call ran", done.err)
    assert {"out": done.out, "found": files_in("found")} == campaign(*EXHAUSTIVE, runs=MANY)
    assert not list(Path(".simkit").glob("explore/*/*/journal.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-j", "2")], ids=["alone", "two processes"])
def test_ctrl_c_ends_it_with_what_was_found(
    options: tuple[str, ...], running: Callable[..., Running], simkit: Call
) -> None:
    stopped = running("--runs", "4000", *options)
    stopped.wait_for_chunks(2)
    # As a terminal sends it: to all processes of the group.
    os.killpg(stopped.process.pid, signal.SIGINT)
    out, err = stopped.ended()

    assert stopped.process.returncode == 1, err
    assert out.startswith("stopped: ")
    assert "  FOUND  HND-03: " in out
    assert "simkit replay found/HND-03-billing.scenario.yaml" in out
    assert "the same command goes on from here" in err
    assert simkit("replay", "found/HND-03-billing.scenario.yaml").code == 1


@pytest.mark.slow
def test_a_changed_file_begins_anew(running: Callable[..., Running], simkit: Call) -> None:
    stopped = running("--runs", "4000")
    stopped.wait_for_chunks(1)
    stopped.process.send_signal(signal.SIGINT)
    stopped.ended()

    goes_on = simkit("explore", FILE, "--runs", "4000", "--time", "0.01")
    assert "note: goes on after " in goes_on.err
    assert goes_on.out.startswith("stopped: ")
    write(FILE, SIMULATION.replace("You refund.", "You may refund."))
    anew = simkit("explore", FILE, "--runs", "4000", "--time", "0.01")

    assert "goes on after" not in anew.err


@pytest.mark.slow
def test_what_was_found_is_run_first_the_next_time_and_written_once(simkit: Call) -> None:
    write(FILE, SIMULATION)
    first = simkit("explore", FILE, "--runs", "60")
    files = files_in("found")
    again = simkit("explore", FILE, "--runs", "1", "--seed", "9")

    assert len(files) > 1
    assert first.out.count("FOUND") == again.out.count("FOUND") == len(files)
    assert "first in run 1; smallest: 1 turn, 2 reply lines" in again.out
    Path("found").rename("found-1")
    simkit("explore", FILE, "--runs", "60")
    files = files_in("found")
    assert simkit("explore", FILE, "--runs", "60").code == 1
    assert files_in("found") == files


DIES = """
import contextlib, os, pathlib, sys

def look(order):
    if pathlib.Path("dies-always").exists() and "worker" in sys.argv[0]:
        os._exit(7)
    with contextlib.suppress(OSError):
        os.rename("dies-once", "died")
        os._exit(7)
    return "sent"
"""
DYING = SIMULATION.replace("[order]}}\ncontracts", "[order]}, function: dies:look}\ncontracts")


@pytest.mark.slow
def test_a_process_that_dies_is_a_chunk_that_runs_again(process: Call) -> None:
    write(FILE, DYING)
    write("dies.py", DIES)
    whole = process("explore", FILE, "--runs", "100")
    assert whole.code == 1, whole.err
    for name in ("found", ".simkit"):
        Path(name).rename(f"{name}-1")

    write("dies-once", "")
    again = process("explore", FILE, "--runs", "100", "-j", "2")

    assert Path("died").exists()
    assert (again.out, files_in("found")) == (whole.out, files_in("found-1"))


@pytest.mark.slow
def test_a_process_that_always_dies_ends_the_campaign(process: Call) -> None:
    write(FILE, DYING)
    write("dies.py", DIES)
    write("dies-always", "")

    done = process("explore", FILE, "--runs", "60", "-j", "2")

    assert (done.code, done.out) == (2, "")
    assert re.sub(r"\d+ to \d+", "A to B", done.err) == (
        "the process that ran conversations A to B died 3 times (exit code 7)\n"
        "  Run without `-j` and `--cluster` to see which conversation does it.\n"
    )


def test_options_that_do_not_fit_together_are_refused(simkit: Call) -> None:
    write(FILE, SIMULATION)

    cluster = simkit("explore", FILE, "--cluster", "tcp://host:1", "-j", "2")
    assert cluster.code == 2
    assert cluster.err.startswith("-j: the workers of a cluster that runs already")
    nowhere = simkit("explore", FILE, "--cluster", "nonsense")
    assert nowhere.code == 2
    assert nowhere.err.startswith("--cluster: 'nonsense' is no address\n")
    file = simkit("explore", FILE, "--to", FILE)
    assert file.code == 2
    assert file.err.startswith(f"--to: {FILE} is a file\n")


CAUSE = Cause("HND-03", "a", "")


def tally(run: int) -> Tally:

    example = Example(
        (1, 1, 0), run, ChoiceLog((TurnLog((1,)),)), Finding("HND-03", "E", "77-hunter2-77", "")
    )
    return Tally(1, 1, 1, (CauseTally(CAUSE, 1, run, example),))


def test_a_journal_keeps_chunks_and_no_secrets(tmp_path: Path) -> None:
    known = (ChoiceLog((TurnLog((2,)),)),)
    journal = Journal(tmp_path, "k", known, Redactor({"API_KEY": "77-hunter2-77"}))
    journal.keep(Chunk(3, 0, 1, 1), tally(1))
    with pytest.raises(BlockingIOError):
        Journal(tmp_path, "k", (), Redactor({}))
    journal.close()

    assert b"77-hunter2-77" not in (tmp_path / "k" / "journal.jsonl").read_bytes()
    again = Journal(tmp_path, "k", (), Redactor({}))
    assert again.known == known
    assert {number: each.causes[0].first for number, each in again.done.items()} == {3: 1}
    again.keep(Chunk(4, 0, 2, 1), tally(2))
    again.close()
    last = Journal(tmp_path, "k", (), Redactor({}))
    assert [*last.done] == [3, 4]
    last.is_over = True
    last.close()
    assert not (tmp_path / "k").exists()
    assert (tmp_path / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("content", [b"", b"{", b"[]\n", b'{"known":3}\n', b"\xff\n"])
def test_a_journal_that_cannot_be_read_begins_anew(content: bytes, tmp_path: Path) -> None:
    write(str(tmp_path / "k" / "journal.jsonl"), "")
    (tmp_path / "k" / "journal.jsonl").write_bytes(content)

    journal = Journal(tmp_path, "k", (), Redactor({}))

    assert journal.done == {}
    journal.keep(Chunk(0, 0, 1, 1), tally(1))
    journal.close()
    again = Journal(tmp_path, "k", (), Redactor({}))
    assert [*again.done] == [0]
    again.is_over = True
    again.close()


def test_old_journals_are_forgotten_unless_a_process_has_them(tmp_path: Path) -> None:
    for number in range(KEPT_MAX + 3):
        write(str(tmp_path / f"k{number}" / "journal.jsonl"), "")
        os.utime(tmp_path / f"k{number}" / "journal.jsonl", ns=(number, number))
    with Lock(tmp_path / "k0") as lock:
        assert lock.acquire(waits=False)
        Journal(tmp_path, "new", (), Redactor({})).close()

    names = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert names == {"new", "k0", *(f"k{number}" for number in range(3, KEPT_MAX + 3))}


def test_a_memory_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    memory = Memory(tmp_path, "a.simulation.yaml::it")
    assert memory.known() == ()
    memory.keep([ChoiceLog(), ChoiceLog()])
    assert memory.known() == (ChoiceLog(),)
    (memory.folder / "known.json").write_text("{")
    assert memory.known() == ()


def test_the_progress_line_says_how_fast_and_how_far() -> None:
    reach = Reach(
        frozenset({Part("agent", "a"), Part("agent", "b"), Part("tool", "t")}),
        frozenset({Part("agent", "a")}),
    )
    text = progress_text("desk", Tally(1500, 1, 1, (), reach), 3000, 749.6)

    assert text == "desk: 1,500 of 3,000, 0 found, 750 a second, 1 of 2 agents, 0 of 1 tool"


def test_the_progress_line_has_the_edges_and_the_users_states() -> None:
    offered = {("edge", "a → b"), ("edge", "b → c"), ("user state", "asks of buyer")}
    reach = Reach(frozenset(Part(*part) for part in offered), frozenset({Part("edge", "a → b")}))

    text = progress_text("desk", Tally(10, 1, 1, (), reach), 300, 5)

    assert text == "desk: 10 of 300, 0 found, 5 a second, 1 of 2 edges, 0 of 1 user state"

"""Set up property tests, which draw the same examples in every run, and report what is left out.

`SIMKIT_NIGHTLY=1` draws more examples. A test that hangs ends its process with the stack of every
thread, so that a run names it instead of never ending.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import math
import os
import signal
import ssl
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=30)
# Eight times as many: with 500 examples and more, two cores did not reach the end in a night.
settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=250)
IS_NIGHTLY = os.environ.get("SIMKIT_NIGHTLY") == "1"
IS_WHOLE = IS_NIGHTLY or bool(os.environ.get("SIMKIT_WRITE_GOLDEN"))
"""Whether nothing is left to the night."""
settings.load_profile("nightly" if IS_NIGHTLY else "ci")


TO_THE_NIGHT = "rows_left_to_the_night"
"""What a worker of pytest-xdist reports: how many rows `sample_by_day` has left out in it."""
to_the_night = [0]


def sample_by_day(items: Iterable[T], step: int) -> list[T]:
    """Return one of so many items by day, and all at night or where golden texts are written."""
    every = list(items)
    some = every if IS_WHOLE else every[::step]
    to_the_night[0] += len(every) - len(some)
    return some


def crossed_rows(item: pytest.Item) -> set[tuple[object, ...]]:
    """Return the row of each `parametrize` of a test that has several."""
    marks = [*item.iter_markers("parametrize")]
    names = [m.args[0].split(",") if isinstance(m.args[0], str) else m.args[0] for m in marks]
    values = item.callspec.params if isinstance(item, pytest.Function) and names[1:] else {}
    rows = [tuple(id(values[name.strip()]) for name in row) for row in names if values]
    return {*enumerate(rows)}


def without_crossings(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return tests; of one whose parameters are crossed, so many that each row is in one."""
    chosen = set[pytest.Item]()
    rows_by_test: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for are_all_new in (True, False):
        for item in items:
            rows, known = crossed_rows(item), rows_by_test[item.nodeid.partition("[")[0]]
            if not rows or (rows.isdisjoint(known) if are_all_new else not rows <= known):
                chosen.add(item)
                known |= rows
    return [item for item in items if item in chosen]


TEST_LIMIT_S = 1_800 if IS_NIGHTLY else 600
"""Seconds after which a test counts as hanging; the longest takes about 20 on two idle cores."""
RENEWED_AFTER_S = 60
stderr = pytest.StashKey[int]()
"""Where stacks are written: pytest replaces the original while a test runs."""
watched_since = pytest.StashKey[float]()

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn:
# tests that interrupt a process must mean the same there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error that pytest itself prints to."""
    assert sys.__stderr__ is not None
    config.stash[stderr] = os.dup(sys.__stderr__.fileno())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without the garbage collector, and keep it from walking them later.

    Fifteen thousand tests and the frameworks that they import stay until the end. To walk them took
    a third of the time of collecting them, and a second in each later collection. What is garbage
    by then stays, too: to find it is one more walk.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """End the process of a test that hangs; pytest-xdist reports it and goes on in a new one."""
    # The watch is a thread of its own, and to end one waits for it: 10 ms a test on a busy machine.
    # So it is renewed once a minute. It is no thread or signal of Python: tests replace those.
    stash, now = item.config.stash, time.monotonic()
    is_due = now - stash.get(watched_since, -math.inf) > RENEWED_AFTER_S
    if is_due and not item.config.option.usepdb:
        stash[watched_since] = now
        limit_s = TEST_LIMIT_S + RENEWED_AFTER_S
        faulthandler.dump_traceback_later(limit_s, exit=True, file=stash[stderr])


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item) -> None:
    """Renew the watch at the next test: pytest itself ends it where a test fails."""
    node.config.stash[watched_since] = -math.inf


MACHINE = ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE")
"""By which pytest and simkit know that they run on a machine of CI, and then print other things."""


@pytest.fixture(scope="session", autouse=True)
def _on_no_machine_of_ci() -> Iterator[None]:
    """What the tests start means the same everywhere: it runs for a person, not on a workflow."""
    with pytest.MonkeyPatch.context() as patch:
        for name in MACHINE:
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let clients read at most one certificate: no test speaks TLS, and all take 20 ms a client."""
    file = tmp_path_factory.mktemp("certificates") / "one.pem"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        if find_spec("certifi") is not None:
            certifi = importlib.import_module("certifi")
            first, end, _ = Path(certifi.where()).read_text("ascii").partition("-----END CERT")
            file.write_text(f"{first}{end}IFICATE-----\n", encoding="ascii")
            patch.setenv("SSL_CERT_FILE", str(file))  # Processes that tests start read it.
        yield


@pytest.fixture(autouse=True)
def _import_path_stays() -> Iterator[None]:
    """Put the import path back: a command that a test calls in this process adds its folder."""
    path = [*sys.path]
    yield
    sys.path[:] = path


@pytest.fixture(scope="session", autouse=True)
def _constants_read_once() -> Iterator[None]:
    """Let Hypothesis keep the numbers that it reads in the source of each module.

    simkit's own modules count as those of a user here, as they are not installed: each process
    that explores would read 360 of them, which takes two seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        if "HYPOTHESIS_STORAGE_DIRECTORY" not in os.environ:
            patch.setenv("HYPOTHESIS_STORAGE_DIRECTORY", str(ROOT / ".hypothesis"))
        yield


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder whose runs of pytest load what users of simkit have, not all that is installed.

    To import all plugins takes a second and a half; tests/compat/test_plugins.py does.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "simkit.pytest_plugin,pytest_bdd.plugin,xdist.plugin")
    return pytester


SLOW = "pytest.mark.slow"
"""What stands in a file that has slow tests."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without slow tests where nothing else runs: two of three have none."""
    is_out = config.option.markexpr == "slow" and collection_path.match("test_*.py")
    return True if is_out and SLOW not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with tests that say that they take ten seconds: no core waits for the last one.

    By day a run of whole folders leaves out most crossings of parameters.
    """
    if not (IS_WHOLE or config.option.keyword or any(".py" in name for name in config.args)):
        some = without_crossings(items)
        to_the_night[0] += len(items) - len(some)
        items[:] = some
    items.sort(key=lambda item: not any(mark.args for mark in item.iter_markers("slow")))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process of pytest-xdist one run of tests, and let who is idle take from another.

    Tests of a file, which import and replay the same, stay in one process, and each test costs half
    a millisecond less than handed out a few at a time, which `-n` alone does.
    """
    scheduler = importlib.import_module("xdist.scheduler")
    is_default = config.option.dist == "load"
    return scheduler.WorkStealingScheduling(config, log) if is_default else None


LEFT_OUT = "tests_left_out"
"""What a worker of pytest-xdist reports to its controller: how many slow tests it left out."""
left_out = pytest.StashKey[int]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the slow tests that pytest leaves out for their mark, which it does last."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and len(slow) == len(items) and slow[0].config.option.markexpr == "not slow":
        slow[0].config.stash[left_out] = len(slow)
    for file in {item.path for item in slow}:
        assert SLOW in file.read_text(encoding="utf-8"), f"{file}: mark its slow tests in it"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the count to the process that prints, if that is another one; end the watch."""
    faulthandler.cancel_dump_traceback_later()
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[LEFT_OUT] = session.config.stash.get(left_out, 0)
        output[TO_THE_NIGHT] = to_the_night[0]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the count of a worker; each of them collects all tests, so all count the same."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[left_out] = output.get(LEFT_OUT, 0)
    to_the_night[0] = output.get(TO_THE_NIGHT, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many slow tests and rows were left out, and how to run them."""
    if to_the_night[0]:
        terminalreporter.write_line(
            f"{to_the_night[0]:,} rows are left to the night: SIMKIT_NIGHTLY=1 runs all."
        )
    count = config.stash.get(left_out, 0)
    if count:
        terminalreporter.write_line(
            f"{count} slow tests were left out (-m 'not slow'): "
            "`python -m pytest -q -n auto -m slow` runs them, `-m ''` runs all; CI runs all."
        )

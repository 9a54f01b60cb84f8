"""Set up property tests, which draw the same examples in every run, and report what is left out.

`SIMKIT_NIGHTLY=1` draws more examples.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=2_000)
settings.load_profile("nightly" if os.environ.get("SIMKIT_NIGHTLY") == "1" else "ci")

# What a shell starts in the background ignores Ctrl-C, and so does all that it starts in turn:
# tests that interrupt a process must mean the same there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LEFT_OUT = "tests_left_out"
"""What a worker of pytest-xdist reports to its controller: how many slow tests it left out."""
left_out = pytest.StashKey[int]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Count the slow tests among those that pytest leaves out."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        stash = slow[0].config.stash
        stash[left_out] = stash.get(left_out, 0) + len(slow)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report the count to the process that prints, if that is another one."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[LEFT_OUT] = session.config.stash.get(left_out, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the count of a worker; each of them collects all tests, so all count the same."""
    node.config.stash[left_out] = getattr(node, "workeroutput", {}).get(LEFT_OUT, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many slow tests were left out, and how to run them."""
    count = config.stash.get(left_out, 0)
    if count:
        terminalreporter.write_line(
            f"{count} slow tests were left out (-m 'not slow'): `python -m pytest -q -m slow` "
            "runs them, `-m ''` runs all; CI runs all."
        )

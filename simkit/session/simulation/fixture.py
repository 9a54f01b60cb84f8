"""The ``sim`` fixture: simulations of one test, checked after its body."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.checks.findings import Finding
from simkit.core.errors import SimkitError
from simkit.core.output import clean
from simkit.core.text import shell_word
from simkit.report.last_run import KEPT_AS
from simkit.report.text import findings_text, note_unfailing
from simkit.session.simulation.asking import place_wrong_calls
from simkit.session.simulation.conversation import ADVICE, Simulation
from simkit.spec.scenario.files import Library

_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_OPENED: Final[pytest.StashKey[list[Simulation]]] = pytest.StashKey()
_JUDGE: Final = "simkit-sim"


@place_wrong_calls
class Simulations:
    """The callable that begins a conversation with a pipeline in a test."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        config = request.config
        self._name = request.node.name
        self._folders = [request.path.parent, config.rootpath]
        self._seed: int | None = config.getoption("--simkit-seed", None)
        self._library = config.stash.setdefault(_LIBRARY, Library())
        self._opened: list[Simulation] = []
        request.node.stash[_OPENED] = self._opened
        setattr(request.node, KEPT_AS, "")
        # Only a session with simulations checks them.
        if not config.pluginmanager.has_plugin(_JUDGE):
            config.pluginmanager.register(_Judge(), _JUDGE)

    def __call__(
        self, pipeline: str | os.PathLike[str] | Mapping[str, Any], *, seed: int = 0, **options: Any
    ) -> Simulation:
        """Begin a conversation; options are those of `Simulation`. ``--simkit-seed`` wins."""
        __tracebackhide__ = True
        folders: list[Path] = self._folders
        options = {"name": self._name, "folders": folders, "library": self._library, **options}
        seed = seed if self._seed is None else self._seed
        simulation = Simulation(pipeline, seed=seed, **options)
        self._opened.append(simulation)
        return simulation


class _Judge:
    """Fails a test whose body passed, but whose simulations have unhandled findings."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Check after the test's body, so that the test fails, not its teardown."""
        opened = item.stash.get(_OPENED, [])
        try:
            return (yield from _judged(item, opened))
        finally:
            for simulation in opened:
                simulation.close()


def _judged(item: pytest.Item, opened: Sequence[Simulation]) -> Generator[None, Any, Any]:
    try:
        result = yield
    except Exception:
        # The failure of the body comes first, also for a run that cannot be checked.
        with suppress(SimkitError):
            findings = _unseen(opened)
            if findings:
                item.add_report_section("call", "simkit findings", clean(findings_text(findings)))
        raise
    if opened:
        _hold(item, opened)
    return result


def _unseen(opened: Sequence[Simulation]) -> list[Finding]:
    return [simulation_ for simulation in opened for simulation_ in simulation.unseen()]


def _hold(item: pytest.Item, opened: Sequence[Simulation]) -> None:
    """Fail the test for findings that it did not access; put warnings into its report."""
    again = f"reproduce: pytest {shell_word(item.nodeid)}"
    try:
        warnings = [warning for simulation in opened for warning in simulation.judgement().warnings]
        findings = _unseen(opened)
    except SimkitError as problem:
        raise pytest.fail.Exception(clean(f"{problem}\n\n{again}"), pytrace=False) from None
    note_unfailing(item, warnings)
    if findings:
        text = f"{findings_text(findings)}\n\n{ADVICE}\n\n{again}"
        raise pytest.fail.Exception(clean(text), pytrace=False)

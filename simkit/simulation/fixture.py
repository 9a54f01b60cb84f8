"""The ``sim`` fixture: simulations of one test, judged when its body is over."""

from __future__ import annotations

import os
import shlex
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.report.text import findings_text
from simkit.scenario.files import Library
from simkit.simulation.conversation import ADVICE, Simulation

WARNINGS: Final = "simkit warnings"
"""The section of a report that shows what failed nothing; the property that counts it."""
_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_OPENED: Final[pytest.StashKey[list[Simulation]]] = pytest.StashKey()
_JUDGE: Final = "simkit-sim"


class Simulations:
    """What a test calls to begin a conversation with a pipeline."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        config = request.config
        self._name = request.node.name
        self._folders = [request.path.parent, config.rootpath]
        self._seed: int | None = config.getoption("--simkit-seed", None)
        self._library = config.stash.setdefault(_LIBRARY, Library())
        self._opened: list[Simulation] = []
        request.node.stash[_OPENED] = self._opened
        # Only a session that simulates is judged.
        if not config.pluginmanager.has_plugin(_JUDGE):
            config.pluginmanager.register(_Judge(), _JUDGE)

    def __call__(
        self,
        pipeline: str | os.PathLike[str] | Mapping[str, Any],
        *,
        seed: int = 0,
        **options: Any,
    ) -> Simulation:
        """Begins a conversation; options are those of `Simulation`. ``--simkit-seed`` wins."""
        __tracebackhide__ = True
        folders: list[Path] = self._folders
        options = {"name": self._name, "folders": folders, "library": self._library, **options}
        seed = seed if self._seed is None else self._seed
        simulation = Simulation(pipeline, seed=seed, **options)
        self._opened.append(simulation)
        return simulation


class _Judge:
    """Fails a test whose body held, but whose simulations have findings that nobody looked at."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judges after the test's body; what fails here is the test, not its teardown."""
        opened = item.stash.get(_OPENED, [])
        try:
            result = yield
        except Exception:
            found = [one for simulation in opened for one in simulation.unseen()]
            if found:
                item.add_report_section("call", "simkit findings", findings_text(found))
            raise
        warnings = [one for simulation in opened for one in simulation.judgement().warnings]
        if warnings:
            item.add_report_section("call", WARNINGS, findings_text(warnings))
            item.user_properties.append((WARNINGS, len(warnings)))
        found = [one for simulation in opened for one in simulation.unseen()]
        if found:
            again = f"reproduce: pytest {shlex.quote(item.nodeid)}"
            pytest.fail(f"{findings_text(found)}\n\n{ADVICE}\n\n{again}", pytrace=False)
        return result

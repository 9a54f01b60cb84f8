"""A declarative, deterministic testing and simulation harness for multi-agent LLM pipelines.

A scenario gives the user's messages, the models' answers, and the claims on every agent's context;
simkit runs it offline and checks the claims::

    for prepared in simkit.load("scenarios"):
        outcome = simkit.simulate(prepared)
        assert outcome.passed, outcome.judgement.findings

Names are imported on first use, so that ``import simkit`` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

    from simkit.adapters.annotations import agent, handoff, state
    from simkit.checks.judge import Outcome
    from simkit.core.errors import SimkitError, SourceError
    from simkit.core.messages import Handoff, Message
    from simkit.explore.api import explore
    from simkit.runtime.functions import same
    from simkit.session.simulate import simulate
    from simkit.session.simulation import Simulation, fakes
    from simkit.spec.scenario.files import Prepared
    from simkit.trace.store import Trace, read_trace
    from simkit.trace.views import view_of

    __version__: str

__all__ = [
    "Handoff", "Message", "Outcome", "SimkitError", "Simulation", "SourceError", "Trace",
    "__version__", "agent", "explore", "fakes", "handoff", "load", "read_trace", "same", "simulate",
    "state", "view_of",
]  # fmt: skip

_HOMES: Final = {
    name: module
    for module, names in {
        "simkit.adapters.annotations": ("agent", "handoff", "state"),
        "simkit.checks.judge": ("Outcome",),
        "simkit.core.errors": ("SimkitError", "SourceError"),
        "simkit.core.messages": ("Handoff", "Message"),
        "simkit.runtime.functions": ("same",),
        "simkit.session.simulate": ("simulate",),
        "simkit.session.simulation": ("Simulation", "fakes"),
        "simkit.trace.store": ("Trace", "read_trace"),
        "simkit.trace.views": ("view_of",),
    }.items()
    for name in names
}


def load(path: str | Path) -> list[Prepared]:
    """Return the scenarios of a file or folder, ready to run; raise SourceError.

    >>> [scenario.item.name for scenario in simkit.load("desk.scenario.yaml")]
    ['the desk answers']
    """
    from simkit.spec.scenario.files import Library
    from simkit.spec.scenario.items import items_in, scenario_files

    library = Library()
    items = (item for file in scenario_files(path) for item in items_in(file, library.cache))
    return [library.prepared(item) for item in items]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            value: Any = version("agent-simkit")
        except PackageNotFoundError:
            value = "0+unknown"
    elif name == "explore":  # The package can be called.
        value = import_module("simkit.explore")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        from simkit.core.text import hinted, likely_word

        likely = "" if name.startswith("_") else likely_word(name, __all__, "package")
        problem = f"module 'simkit' has no attribute {name!r}"
        raise AttributeError(hinted(problem, likely, () if likely else __all__))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

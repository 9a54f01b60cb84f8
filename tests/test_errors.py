"""The exception tree: drawn as it is; every exception can travel between processes."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

import pytest
from yaml.error import Mark
from yaml.nodes import ScalarNode

import simkit
from simkit.capture.cassettes.vcrpy_layout import Misfit
from simkit.core import errors
from simkit.core.errors import (
    FakeInvalid,
    FrameworkFailed,
    FunctionMissing,
    LimitExceeded,
    MatcherError,
    MessageInvalid,
    ModelError,
    NetworkRefused,
    ProcessCrashed,
    ProcessFailed,
    ProgramNamed,
    ReferenceInvalid,
    ScriptBroken,
    SimkitError,
    SourceError,
    TurnCancelled,
    TurnCut,
)
from simkit.language.yaml.syntax import Fault

NODE = ScalarNode("", "x", Mark("f.yaml", 0, 0, 0, None, 0))
ARGS: dict[type[Exception], tuple[Any, ...]] = {
    FunctionMissing: ("what", "m:f"),
    ProgramNamed: ("what", "m:f"),
    FakeInvalid: ("what", "near", ("known",)),
    Fault: (NODE, "what", "advice"),
    LimitExceeded: ("turns", 3),
    MatcherError: (("a", 0), "what", "word", ("known",), "advice"),
    MessageInvalid: (("user",), "what", "advice", "word", ("known",)),
    Misfit: (("interactions", 0), "what"),
    FrameworkFailed: ("what", "MaxTurnsExceeded"),
    ModelError: ("what", "rate_limit", 429),
    NetworkRefused: ("what", "example.com", 443),
    ReferenceInvalid: ("what", ("a", 0)),
    ProcessFailed: ("what", ("turns", 1, "restart")),
    ScriptBroken: ("what", ("turns", 0)),
    TurnCut: ("what", "cancel at call 1"),
    TurnCancelled: ("what", "cancel at call 1"),
    ProcessCrashed: ("what", "crash at call 1"),
    SourceError: ("f.yaml:1:1", "what", "at", "near", ("known",), "advice"),
}
"""What each is raised with; the others with one sentence."""


def modules() -> Iterator[str]:
    """Every module of simkit but those of adapters whose framework is not installed here."""
    adapters = {entry.value: entry.name for entry in entry_points(group="simkit.adapters")}
    missing = [value for value, name in adapters.items() if not is_installed(name)]
    # A package that cannot be imported is passed over, and all that is in it.
    for module in pkgutil.walk_packages(simkit.__path__, "simkit.", onerror=lambda name: None):
        if not any(f"{module.name}.".startswith(f"{item}.") for item in missing):
            yield module.name


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def own_exceptions() -> list[type[Exception]]:
    """Every exception that a module of simkit defines; of adapters, where their framework is."""
    data: dict[str, type[Exception]] = {}
    for name in modules():
        for value in vars(importlib.import_module(name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, Exception)
                and value.__module__.startswith("simkit.")
            ):
                data[f"{value.__module__}.{value.__name__}"] = value
    return [data[name] for name in sorted(data)]


def drawn(line: str) -> tuple[int, str]:
    """The depth and the name of a line of the drawing."""
    match = re.fullmatch(r"    ((?:[│ ]   |[├└]── )*)(\w+) .*", line)
    assert match is not None, line
    return len(match[1]) // 4, match[2]


def below(kind: type[Exception], depth: int = 0) -> set[tuple[int, str]]:
    """The depths and the names of an exception and of all that derive from it."""
    return {(depth, kind.__name__)}.union(
        *(
            below(subclass, depth + 1)
            for subclass in kind.__subclasses__()
            if subclass.__module__ != __name__
        )
    )


@pytest.mark.parametrize("kind", own_exceptions(), ids=lambda kind: kind.__name__)
def test_every_exception_survives_pickle_with_its_data(kind: type[Exception]) -> None:
    raised = kind(*ARGS.get(kind, ("what",)))

    copy = pickle.loads(pickle.dumps(raised))

    assert type(copy) is kind
    if kind is not Fault:  # Nodes of a document are equal only to themselves.
        assert (copy.args, vars(copy)) == (raised.args, vars(raised))
        assert str(copy) == str(raised)


def test_the_tree_is_drawn_as_it_is() -> None:
    assert errors.__doc__ is not None
    drawing = errors.__doc__.partition("::\n\n")[2].partition("\n\n")[0]

    assert {drawn(line) for line in drawing.splitlines()} == below(SimkitError)


def test_the_whole_tree_stands_in_one_module() -> None:
    names = [
        kind.__qualname__
        for kind in own_exceptions()
        if issubclass(kind, SimkitError) and kind.__module__ != errors.__name__
    ]

    assert names == []


def test_a_limit_says_its_name_and_what_it_allows() -> None:
    assert str(LimitExceeded("turns", 3)) == "limit `turns` reached: 3 allowed"

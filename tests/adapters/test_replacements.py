"""What simkit puts in place of a function takes the same arguments, by place and by name."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import suppress
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, Final

import pytest

import simkit
from simkit.capture.http.installing import Installation

_ANY_PLACE: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY)


@pytest.fixture(scope="module")
def installations() -> list[Installation]:
    """Those of every module that can be imported here."""
    root = Path(simkit.__path__[0])
    for file in root.rglob("*.py"):
        if "Installation(" in file.read_text(encoding="utf-8"):
            # Its framework may not be here.
            with suppress(ImportError):
                importlib.import_module(
                    ".".join(("simkit", *file.relative_to(root).with_suffix("").parts))
                )
    gc.unfreeze()  # Else what was imported with the tests would be hidden.
    try:
        return [
            thing for thing in gc.get_referrers(Installation) if isinstance(thing, Installation)
        ]
    finally:
        gc.freeze()


def signature_of(function: Any, *, is_wrapped: bool) -> Signature | None:
    """The signature of a function, or of one that it wraps; None if it has none."""
    function = getattr(function, "__func__", function)
    try:
        return signature(function, follow_wrapped=is_wrapped)
    except (TypeError, ValueError):
        return None


def misplaced(before: Any, replacement: Any) -> Iterator[str]:
    """The parameters that a caller may give by place to the original alone, or elsewhere."""
    while getattr(replacement, "__wrapped__", before) is not before:
        replacement = replacement.__wrapped__  # A decorator takes whatever the function takes.
    original = signature_of(before, is_wrapped=True)
    other = signature_of(replacement, is_wrapped=False)
    if original is None or other is None:
        return
    places = [item.name for item in original.parameters.values() if item.kind in _ANY_PLACE]
    for place, parameter in enumerate(other.parameters.values()):
        is_rest = parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if is_rest or parameter.name not in places[1:]:
            continue
        is_at_its_place = places[place : place + 1] == [parameter.name]
        if parameter.kind not in _ANY_PLACE or not is_at_its_place:
            yield parameter.name


def test_replacements_take_arguments_as_the_originals_do(installations: list[Installation]) -> None:
    count, wrong = 0, {}
    for installation in installations:
        with installation:
            for owner, before, replacement in list(installation._saved.values()):
                count += 1
                names = [*misplaced(before, replacement)]
                if names:
                    wrong[f"{owner.__name__}: {replacement!r}"] = names

    assert wrong == {}
    assert count > 50

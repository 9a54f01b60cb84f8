"""Made-up people and things for tests in Python, as in a scenario's `given: {fakes: …}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkit.core.errors import SourceError
from simkit.session.simulation.places import document_at, place_of_caller
from simkit.spec.scenario.filling import Filling
from simkit.spec.scenario.model import DEFAULT_START

__tracebackhide__ = True


def fakes(*, seed: int = 0, start: str = DEFAULT_START, **people: Any) -> Mapping[str, Any]:
    """Make up people and things: ``fakes(seed=7, customers=3)["customers"][0]["email"]``.

    Each is a number, a locale, or a mapping as in a scenario file; a file with the same seed and
    start gives the same ones. Raise SourceError at the line of the call.

    >>> simkit.fakes(seed=7, customers=2) == simkit.fakes(seed=7, customers=2)
    True
    """
    place = place_of_caller()
    values = {"seed": seed, "start": start, "given": {"fakes": people}}
    try:
        return Filling(document_at(values, place, ()), None).people
    except SourceError as problem:
        raise SourceError(
            place.where, problem.what, problem.at, problem.near, problem.known, problem.advice
        ) from None

"""A step: a phrase, and what it adds to the story."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simkit.bdd.story import Story
from simkit.checks.judge import Judgement

StepValues = Mapping[str, Any]
"""What stood in the holes of a phrase."""


class Step(NamedTuple):
    """One line that a feature may say."""

    text: str
    """The phrase; with a colon at its end it needs what it takes below it."""
    tell: Callable[[Story, StepValues], Judgement | None]
    """Adds it to the story; a claim returns what does not hold."""
    takes: tuple[str, ...] = ()
    """What must stand below: `table`, `text`, or one of both."""
    claims: tuple[str, ...] = ()
    """The claims of the registry that it makes: `reply`, `context.tokens`."""

"""Selectors: the keys under `context` and `runs` that select an agent's model calls or runs.

A claim that denies or bounds concerns every call in scope; a claim that affirms, the first one in
the turn. A key that names calls (``X[0]``, ``X[*]``, ``X[any]``, ``X[run 1][0]``) overrides this.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from simkit.core.messages import ABSENT
from simkit.language.matching.polarity import Polarity, polarity_of

ALL_AGENTS: Final = "*"
EVERY: Final = "*"
SOME: Final = "any"
BOUNDING: Final = ("excludes", "tools", "handoffs", "tokens", "share", "settings")
"""Claims on contexts that always deny or bound: each concerns every call in scope."""
AFFIRMING: Final = ("includes",)
"""Claims on contexts that always affirm."""
FORMS: Final = "`{0}[0]` is the first, `{0}[-1]` the last, `{0}[*]` every one, `{0}[any]` some one"
RUN_FORMS: Final = "`{0}[run 1][0]` the first call of its second run"
SELECTOR_PHRASES: Final = (
    "`the first {1} of {0}`, `the last {1} of {0}`, `every {1} of {0}`, `some {1} of {0}`"
)
RUN_SPOKEN: Final = "`the first {1} of {0} in its second run`"
"""The same word in features."""

_KEY: Final = re.compile(
    r"(?P<agent>.*?)(?:\[run (?P<run>-?\d+)\])?(?:\[(?P<which>-?\d+|\*|any)\])?", re.DOTALL
)
_MALFORMED: Final = re.compile(r"(?P<agent>[^\[\]]+)(?P<rest>\[.*\])", re.DOTALL)


class Selector(NamedTuple):
    """The calls, or runs, that a key selects."""

    agent: str
    """The agent, or ``*`` for all."""
    run: int | None
    """The index of the run with the calls; None for all runs."""
    which: str
    """An index, ``*``, ``any``; or empty if the claim itself decides."""

    @property
    def is_plain(self) -> bool:
        """Return whether it names an agent, and neither a call nor a run."""
        return not self.which and self.run is None and self.agent != ALL_AGENTS

    @property
    def place(self) -> int | None:
        """Return the index of the selected call; None if it selects several."""
        return None if self.which in ("", EVERY, SOME) else int(self.which)


def selected(key: str) -> Selector:
    """Parse a key; ``*`` alone selects every call of every agent."""
    match = _KEY.fullmatch(key)
    assert match is not None
    run = None if match["run"] is None else int(match["run"])
    which = match["which"] or ""
    if match["agent"] == ALL_AGENTS and run is None and not which:
        which = EVERY
    return Selector(match["agent"], run, which)


def malformed(key: str) -> tuple[str, str] | None:
    """Return the agent and the brackets of a malformed key; None for a valid one."""
    match = _MALFORMED.fullmatch(selected(key).agent)
    return (match["agent"], match["rest"]) if match else None


def claimed_polarity(name: str, matcher: Any) -> Polarity:
    """Return the polarity of a claim: it affirms, it denies, or both."""
    if name in BOUNDING:
        return Polarity(False, matcher)
    if name in AFFIRMING:
        return Polarity(True, ABSENT)
    return polarity_of(matcher)

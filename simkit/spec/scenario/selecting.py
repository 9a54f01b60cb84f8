"""Which model calls, or runs, of an agent a claim speaks of: the keys under `context` and `runs`.

What denies or bounds speaks of every call in scope; what affirms, of the first one in the turn.
A key that names calls (``X[0]``, ``X[*]``, ``X[any]``, ``X[run 1][0]``) says it itself.
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
"""Claims on contexts that deny or bound, whatever stands there: each is of every call in scope."""
AFFIRMING: Final = ("includes",)
"""Claims on contexts that affirm, whatever stands there."""
FORMS: Final = "`{0}[0]` is the first, `{0}[-1]` the last, `{0}[*]` every one, `{0}[any]` some one"
RUN_FORMS: Final = "`{0}[run 1][0]` the first call of its second run"
SELECTOR_PHRASES: Final = (
    "`the first {1} of {0}`, `the last {1} of {0}`, `every {1} of {0}`, `some {1} of {0}`"
)
RUN_SPOKEN: Final = "`the first {1} of {0} in its second run`"
"""The same as features say it."""

_KEY: Final = re.compile(
    r"(?P<agent>.*?)(?:\[run (?P<run>-?\d+)\])?(?:\[(?P<which>-?\d+|\*|any)\])?", re.DOTALL
)
_MALFORMED: Final = re.compile(r"(?P<agent>[^\[\]]+)(?P<rest>\[.*\])", re.DOTALL)


class Selector(NamedTuple):
    """The calls, or runs, that a key names."""

    agent: str
    """The agent, or ``*`` for every one."""
    run: int | None
    """The place of the run whose calls are meant; None for all."""
    which: str
    """A place, ``*``, ``any``; or empty where the claim itself decides."""

    @property
    def is_plain(self) -> bool:
        """Whether it names an agent, and neither a call nor a run."""
        return not self.which and self.run is None and self.agent != ALL_AGENTS

    @property
    def place(self) -> int | None:
        """The place of the one call that is meant, if it is one."""
        return None if self.which in ("", EVERY, SOME) else int(self.which)


def selected(key: str) -> Selector:
    """Read a key; ``*`` alone is every call of every agent."""
    match = _KEY.fullmatch(key)
    assert match is not None
    run = None if match["run"] is None else int(match["run"])
    which = match["which"] or ""
    if match["agent"] == ALL_AGENTS and run is None and not which:
        which = EVERY
    return Selector(match["agent"], run, which)


def malformed(key: str) -> tuple[str, str] | None:
    """Return the agent and the brackets of a key that names calls in no form there is."""
    match = _MALFORMED.fullmatch(selected(key).agent)
    return (match["agent"], match["rest"]) if match else None


def claimed_polarity(name: str, matcher: Any) -> Polarity:
    """Return what a claim says: that something is there, that something is not, or both."""
    if name in BOUNDING:
        return Polarity(False, matcher)
    if name in AFFIRMING:
        return Polarity(True, ABSENT)
    return polarity_of(matcher)

"""Runs of a scenario without what earlier ones of the process left: whether that decided it."""

from __future__ import annotations

import atexit
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Final, Literal
from warnings import catch_warnings

from simkit.checks.findings import Hit
from simkit.core.text import short
from simkit.session.execution.running import run_again
from simkit.spec.scenario.files import Prepared
from simkit.trace.views import View, view_of

_SILENCE_MAX_S: Final = 60.0
_TEXT_MAX: Final = 60
_WARNING: Final[Literal["W"] | None] = "W"

_Passage = tuple[int, str, str]
"""A turn, an agent, and what it is sent; without an agent, what the turn is answered with."""


def reached_by_left_values(prepared: Prepared, view: View) -> Iterator[Hit]:
    """Yield where a request or reply first holds what an earlier scenario left in a variable.

    It holds it less often without that, and as often again with it: so it is no constant, nothing
    that a cache would hold anyway, and no chance.
    """
    left_values: Any = sys.modules.get("simkit.adapters.recorder.left_values")
    left_by = {} if left_values is None else left_values.left_to(prepared.item.name)
    # To read what every agent was sent costs more than a short run.
    passages = _passages(view) if any(left_by.values()) else []
    for variable, scenarios in left_by.items():
        texts = [text for text in scenarios if _count(text, passages)]
        hit = _hit(prepared, passages, variable, scenarios, texts) if texts else None
        if hit is not None:
            yield hit
            return


def _hit(
    prepared: Prepared,
    passages: list[_Passage],
    variable: str,
    scenarios: Mapping[str, str],
    texts: list[str],
) -> Hit | None:
    others: list[_Passage] = []
    end, severity = "; it may come from elsewhere", _WARNING
    with suppress(Exception):  # Not every process can be copied, and not all code can run again.
        others = _passages_without(prepared, variable)
        texts = [text for text in texts if _count(text, others) < _count(text, passages)]
        again = _passages_without(prepared, "") if texts else []
        texts = [text for text in texts if _count(text, others) < _count(text, again)]
        end, severity = ", and without that it is not there", None
    if not texts:
        return None
    text = max(texts, key=len)
    pairs = zip(passages, [*others, *[(0, "", "")] * len(passages)], strict=False)
    turn, agent, _ = next(
        passage for passage, other in pairs if _count(text, [passage]) > _count(text, [other])
    )
    where = f"agent {agent!r} is sent" if agent else "the user is answered with"
    problem = (
        f"{where} {short(text, _TEXT_MAX)!r} in turn {turn}: the scenario '{scenarios[text]}', "
        f"which ran before in this process, left it in `{variable}`{end}"
    )
    data = {"scenario": scenarios[text], "variable": variable}
    return Hit("RUN-08", problem, turn, agent, severity=severity, data=data)


def _passages(view: View) -> list[_Passage]:
    requests = [
        (call.turn, call.agent, "\n".join([each.content for each in call.context.messages]))
        for call in view.calls.values()
    ]
    return [*requests, *[(turn.number, "", str(turn.reply)) for turn in view.turns]]


def _count(text: str, passages: list[_Passage]) -> int:
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    return sum([len(whole.findall(words)) for _, _, words in passages if text in words])


def _passages_without(prepared: Prepared, variable: str) -> list[_Passage]:
    """Run a scenario in a copy of this process, as it found it but for what is in a variable."""
    # Most scenarios find nothing.
    from simkit.session.workers import fork_application, start_copy

    with catch_warnings(action="ignore"):  # Python 3.12: this process may have threads.
        # The copy must not do at its end what this process does at its own.
        application = fork_application(atexit._clear)
    with closing(application), start_copy(application) as worker:
        trace = worker.call(run_again, prepared, variable, seconds=_SILENCE_MAX_S)
    return _passages(view_of(trace.events))

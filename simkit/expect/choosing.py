"""Which model calls, or runs, each claim is held against, and how findings say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from simkit.expect.claims import listed, no_place
from simkit.expect.findings import Finding
from simkit.expect.scope import Path, Scope
from simkit.matching.polarity import Polarity
from simkit.messages import ABSENT
from simkit.scenario.selecting import EVERY, SOME, Selector
from simkit.views import CallView
from simkit.words import counted

_MODEL_CALL: Final = "model call"

Item = TypeVar("Item")


class Group(NamedTuple, Generic[Item]):
    """All that a key may speak of for one agent, in order."""

    agent: str
    items: Sequence[Item]
    run: int | None = None
    """The place of the run, where only its calls are meant."""
    noun: str = _MODEL_CALL

    def name(self, item: Item) -> str:
        """Returns the key by which a claim would name one of them: ``billing[1]``."""
        place = next(at for at, one in enumerate(self.items) if one is item)
        return f"{self.agent}{self.within}[{place}]"

    @property
    def within(self) -> str:
        """``[run 1]`` where only the calls of one run are meant."""
        return "" if self.run is None else f"[run {self.run}]"


class Looked(NamedTuple, Generic[Item]):
    """One call or run that a claim is held against, and the part of the claim that is."""

    item: Item
    matcher: Any
    is_denial: bool
    """Whether only what the claim denies is held against it."""


def looked_at(
    selector: Selector, polarity: Polarity, matcher: Any, group: Group[Item]
) -> Iterator[Looked[Item]]:
    """Yields what a claim is held against; not for ``[any]``, where one of them is enough."""
    items = group.items
    if selector.place is not None:
        yield Looked(items[selector.place], matcher, False)
        return
    is_of_all = selector.which == EVERY or not polarity.affirms
    for place, item in enumerate(items):
        if is_of_all or not place:
            yield Looked(item, matcher, False)
        elif polarity.denial is not ABSENT:
            yield Looked(item, polarity.denial, True)


def which_words(
    selector: Selector,
    polarity: Polarity,
    looked: Looked[Item],
    group: Group[Item],
    scope: Scope,
    holds: Callable[[Item], bool],
) -> Iterator[str]:
    """Yields a line that says which of several were looked at, where the key does not.

    ``holds`` says whether what was looked at here holds of another one too.
    """
    count = len(group.items)
    if count < 2 or selector.which:
        return
    all_of = f"{counted(count, group.noun)} of {group.agent!r} {_in(group, scope)}"
    if looked.is_denial or not polarity.affirms:
        what = "what it denies is" if polarity.affirms else "it denies or bounds, so it is"
        broken = [f"`{group.name(item)}`" for item in group.items if not holds(item)]
        yield f"{what} of all {all_of}; it does not hold of {listed(broken)}"
    else:
        others = [f"`{group.name(item)}`" for item in group.items if holds(item)]
        found = listed(others) if others else "none of the others"
        yield f"it affirms, so it is of the first of {all_of}; it holds of {found}"


def first_of_each(findings: Iterable[Finding], selector: Selector) -> Iterator[Finding]:
    """Yields one finding for each claim that is of several calls by its kind, else all."""
    seen: set[Path] = set()
    for finding in findings:
        if not selector.which and finding.path in seen:
            continue
        seen.add(finding.path)
        yield finding


def _in(group: Group[Any], scope: Scope) -> str:
    return scope.words if group.run is None else f"in its run [{group.run}] {scope.words}"


def calls_of_run(scope: Scope, agent: str, run: int) -> Group[CallView] | str:
    """Returns the model calls of an agent's run at a place, or why there are none."""
    calls = scope.calls.get(agent, ())
    mine = list(dict.fromkeys(one.id for one in scope.runs if one.agent == agent))
    # A run that waited for the user began in an earlier turn.
    runs = [*dict.fromkeys(call.run for call in calls if call.run not in mine), *mine]
    if not -len(runs) <= run < len(runs):
        if not runs:
            return f"agent {agent!r} did not run {scope.words}"
        times = "once" if len(runs) == 1 else f"{len(runs)} times"
        return f"agent {agent!r} ran {times} {scope.words}, {no_place(run, len(runs))}"
    place = run % len(runs)
    found = [call for call in calls if call.run == runs[place]]
    if not found:
        return f"agent {agent!r} made no model call in its run [{place}] {scope.words}"
    return Group(agent, found, place)


def one_is_enough(selector: Selector) -> bool:
    """Whether a claim must hold of one of several only."""
    return selector.which == SOME

"""One row for each claim: what simkit knows of it, beside its type and its documentation.

A row is the annotation of the claim's field in `RunClaims`, `ContextClaims` or `Expect`. The
checks, the phrases of features, the search for denials that prove nothing (RUN-03) and the names in
claims all read it, so that a new claim is one field with one row. CONTRIBUTING.md adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from pydantic import BaseModel

from simkit.core.messages import value_said
from simkit.language.matching.values import Content
from simkit.language.paths import walk
from simkit.trace import events as e
from simkit.trace.views import log_fields, prefix_of

if TYPE_CHECKING:
    from simkit.trace.views import ContextView, RunView, View

MESSAGE_NAMES: Final = ("role", "agent", "section", "turn", "id", "tool", "call_id")
"""Keys of a message whose values are names: they occur in no text."""
CUT_NAMES: Final = (*MESSAGE_NAMES, "by", "what", "channel")
"""The same keys of what a context left out."""
ALL_NAMES: Final = ("*",)
"""The ``names`` of a claim whose values are all names."""


class Aspect(NamedTuple):
    """Something that a driver may not see."""

    words: str
    """The words for it in findings: the driver does not see …"""
    advice: str = ""
    """How code can show it, or what to claim instead."""


@cache
def aspect(name: str) -> Aspect:
    """Return an aspect of `aspects.yaml`."""
    text = Path(__file__).with_name("aspects.yaml").read_bytes()
    return Aspect(**msgspec.yaml.decode(text)[name])


ANY_SHAPE: Final = object()
"""A value of unknown shape: it may match."""
_LEFT_OUT_FIELDS: Final = (
    "section", "channel", "by", "path", "items", "characters", "text", "agent",
)  # fmt: skip
"""Fields of an entry of `left_out` beside those of the item."""


Domain: TypeAlias = Literal["absent", "value", "claim", "list", "count"]
"""The values that a claim can meet: none, any, absent if null, absent if an empty list, a number
from 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClaimKind:
    """All that simkit knows of one claim."""

    read: Callable[[Any], Any] | None = None
    """Returns the claimed value of a run (`RunView`) or of a context (`ContextView`). None if a
    check of its own compares the claim: one on a turn (`CHECKS`), `includes` and `excludes`."""
    phrase: str = ""
    """Its name in features, before a condition: ``the goal of {run}``. Empty if only phrases of its
    own in `simkit/bdd/vocabulary.py` make it."""
    example: str = ""
    """A line of a feature, if the phrase with its holes filled is no good one."""
    needs: tuple[str, ...] = ()
    """The aspects (`aspects.yaml`) that a driver must see; the first that it does not see is
    reported. Claims on runs need `runs` anyway."""
    null_needs: str = ""
    """The aspect that code did not show if the value is null."""
    recorded_in: tuple[type[e.AnyEvent], str] | None = None
    """The event and its field that hold the value, if it is one field of one event."""
    happens_at: Literal["start", "write", "end"] = "end"
    """The moment of a run at which a failing claim is pinned: its first context, its write of the
    differing channel, or its last context."""
    values: Callable[[View], Iterable[Any]] | None = None
    """Returns all such values of a trace, of lists their elements. By default, what ``read``
    returns for every run, or context."""
    other_values: Callable[[View], Iterable[Any]] | None = None
    """Returns further values that could have been there."""
    form: Literal["value", "list", "messages"] = "value"
    """Whether the value is a list, or one of messages."""
    names: tuple[str, ...] = ()
    """The keys of its elements, if these are no messages, whose values are names and so occur in
    no text; `ALL_NAMES` if there is no text."""
    shapes: Callable[[View], Iterable[Any]] | Literal["values", "any"] = "any"
    """The values whose shapes a denial may speak of: ``{$not: {$has: [x]}}`` proves nothing if none
    is a list. ``any`` if that is not asked."""
    domain: Domain | None = None
    """The values that it can meet, if a claim with a matcher that holds of all of them is reported
    as one that cannot fail (VAL-24)."""
    polarity: Literal["matcher", "affirms", "bounds"] = "matcher"
    """Whether the claim always affirms, so that it concerns the first call, or always denies or
    bounds, so that it concerns every one. Else the matcher decides."""
    refers_to: str = ""
    """The noun of the names in it, which are checked before the run: ``goal``, ``channel``."""
    is_assignable: bool = True
    """Whether it can be claimed where a pipeline's file assigns messages to sections."""
    is_in_request: bool = False
    """Whether a request shows it whole even if the provider keeps earlier messages."""

    @property
    def name_keys(self) -> tuple[str, ...]:
        """Return the keys whose values are names, of messages too."""
        return MESSAGE_NAMES if self.form == "messages" else self.names


@cache
def claim_kinds(model: type[BaseModel]) -> Mapping[str, ClaimKind]:
    """Return the rows of a model of claims; raise TypeError for a claim without one."""
    rows = {}
    for name, field in model.model_fields.items():
        own_rows = [item for item in field.metadata if isinstance(item, ClaimKind)]
        if not own_rows:
            raise TypeError(
                f"the claim `{model.__name__}.{name}` has no row: annotate it with a `ClaimKind` "
                "(simkit/spec/scenario/claim_kinds.py)"
            )
        rows[name] = own_rows[0]
    return rows


# Values of traces


def updates(view: View) -> Iterator[Any]:
    """Yield what runs, handoffs and users wrote to channels."""
    for event in view.events:
        if isinstance(event, e.StateUpdated):
            yield view.new_parts(event)[0]


def runs_of(view: View) -> Iterator[Any]:
    """Yield the runs of all turns."""
    return (run for turn in view.turns for run in turn.runs)


def contexts_of(view: View) -> Iterator[Any]:
    """Yield the contexts of all model calls."""
    return (call.context for call in view.calls.values())


def agents_known(view: View) -> Iterator[str]:
    """Yield the agents of the pipeline, those that ran, and those that could be handed off to."""
    yield from view.pipeline.agents
    yield from (run.agent for run in runs_of(view))
    for context in contexts_of(view):
        yield from context.handoffs or ()


def tools_declared(view: View) -> Iterator[str]:
    """Yield the tools that have definitions, and those that the pipeline gives to its agents."""
    yield from view.definitions.values()
    for agent in view.pipeline.agents.values():
        yield from agent.tools


def replies(view: View) -> Iterator[Any]:
    """Yield the replies of turns, and the outputs of runs."""
    for turn in view.turns:
        yield turn.reply
        yield from (run.output for run in turn.runs)


def errors(view: View) -> Iterator[Any]:
    """Yield the errors of turns, and the one of the run."""
    all_errors = [*(turn.error for turn in view.turns), view.error]
    return (msgspec.to_builtins(error) for error in all_errors if error is not None)


def log_records(view: View) -> Iterator[Any]:
    """Yield the log records of the code's own loggers."""
    return (log_fields(event) for event in view.events if isinstance(event, e.LogRecorded))


def states(view: View) -> Iterator[Any]:
    """Yield the channels after each turn, and all that was written."""
    yield from (turn.state for turn in view.turns)
    yield from updates(view)


def run_replies(view: View) -> Iterator[Any]:
    """Yield the final messages of all runs that have one."""
    return (reply_of(run) for run in runs_of(view) if run.message is not None)


def reply_of(run: RunView) -> Any:
    """Return the final message of a run, as a text and as the value in it; None if it has none."""
    message = run.message
    return None if message is None else Content(message.content, value_said(message))


def measures_of(context: ContextView) -> dict[str, Any] | None:
    """Return what claims measure of a request's prefix; None for an agent's first request."""
    prefix = prefix_of(context)
    return None if prefix is None else {"share": prefix.share, "tokens": prefix.tokens}


def shares_of_all(view: View) -> Iterator[Any]:
    """Yield the shares of each context; an agent that said nothing has none."""
    nobody = dict.fromkeys(("user", *view.pipeline.agents), 0.0)
    return ({**nobody, **context.shares()} for context in contexts_of(view))


def shapes_left_out(view: View) -> Iterator[Any]:
    """Yield lists of items that a section may leave out: each mapping that was written."""
    fields = dict.fromkeys(_LEFT_OUT_FIELDS, ANY_SHAPE)
    yield [fields]
    for update in updates(view):
        yield from ([{**item, **fields}] for _, item in walk(update) if isinstance(item, Mapping))

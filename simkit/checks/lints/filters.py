"""CTX-17: messages that a filter of the user's code dropped, and that come back later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts, first_of
from simkit.checks.lints.registry import lint
from simkit.trace import events as e
from simkit.trace.views import ShownPart

DroppedMessage = tuple[str, int]
"""The filter, and the turn in which it dropped a message."""


class _StreamState:
    """The part of one stream that was read, and the messages that filters dropped from it."""

    def __init__(self) -> None:
        self.dropped: dict[int, DroppedMessage] = {}
        self.begin(None)

    def begin(self, stream: object) -> None:
        """Restart: the stream is reported from its beginning."""
        self.stream = stream
        self.read = self.cuts_read = 0
        self.cut: set[int] = set()
        """The messages that settled cuts dropped."""
        self.filters: set[str] = set()
        """The filters of these cuts."""


class _FilteredStreams(dict[str, _StreamState]):
    """The streams of contexts, by their ids."""


@lint("CTX-17", e.ContextBuilt, when="is_code")
def filtered_comes_back(event: e.ContextBuilt, facts: Facts) -> Iterable[Hit]:
    """CTX-17: a message that a filter dropped from a context does not come back in a later one.

    The lint finds a message that one of the agent's contexts lost to a filter, and that a later
    context shows while the same filter dropped nothing there: the filter was applied once, and the
    conversation continues from before it. In declared pipelines each context is filtered again.
    Seen in openai-agents#2258, where ``to_input_list()`` brings back what a nested handoff has
    summarized.
    """
    if _FilteredStreams not in facts.notes and not any(
        type(part) is e.Shown and (part.cuts or part.tail_cuts) for part in event.parts
    ):
        return  # Before a filter has dropped anything, nothing can come back.
    streams, call = facts.notes_of(_FilteredStreams), facts.view.calls[event.call]
    back: dict[DroppedMessage, list[int]] = {}
    for part in call.context.parts:
        if type(part) is ShownPart:
            stream_state = streams.setdefault(part.stream.id, _StreamState())
            for number, dropped in _come_back(part, stream_state):
                back.setdefault(dropped, []).append(number)
            _remember(part, stream_state, event.turn)
    for (by, turn), numbers in back.items():
        ids = [f"m{number}" for number in numbers]
        problem = (
            f"agent {event.agent!r} is sent {'a message' if len(ids) == 1 else 'messages'} in turn "
            f"{event.turn} that filter `{by}` took out of its context in turn {turn}: "
            f"{first_of(ids)}"
        )
        yield Hit.at("CTX-17", call, problem, filter=by, ids=list(ids))


def _come_back(part: ShownPart, stream_state: _StreamState) -> Iterator[tuple[int, DroppedMessage]]:
    """Yield messages that the part shows although a filter, inactive now, dropped them before."""
    stream = part.stream
    if stream_state.stream is not stream:
        stream_state.begin(stream)
    for cut in stream.cuts[stream_state.cuts_read : part.cuts_hi]:
        stream_state.cut.add(cut.message)
        stream_state.filters.add(cut.by)
    if stream_state.dropped:
        now = {cut.message for cut in part.tail_cuts}
        at_work = {cut.by for cut in part.tail_cuts} | stream_state.filters
        fresh = (
            *stream.entries[stream_state.read : part.hi],
            *part.tail[max(0, part.lo - part.hi) :],
        )
        for message in fresh:
            number = message.number
            dropped_message = stream_state.dropped.get(number)
            if (
                dropped_message
                and dropped_message[0] not in at_work
                and number not in now
                and number not in stream_state.cut
            ):
                del stream_state.dropped[number]  # It is reported once.
                yield number, dropped_message
    stream_state.read = part.hi


def _remember(part: ShownPart, stream_state: _StreamState, turn: int) -> None:
    cuts = part.stream.cuts[stream_state.cuts_read : part.cuts_hi]
    for cut in (*cuts, *part.tail_cuts):
        stream_state.dropped.setdefault(cut.message, (cut.by, turn))
    stream_state.cuts_read = part.cuts_hi

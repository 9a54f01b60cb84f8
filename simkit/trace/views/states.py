"""The values of channels, computed when somebody asks for them: about most runs nobody does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from simkit.core.messages import JsonValue
from simkit.trace import events as e
from simkit.trace.changes import UPDATE, VALUES, apply_change, is_change
from simkit.trace.reducers import (
    BUILT_IN,
    DECLARED_RESET,
    Reducer,
    empty_value,
    is_reset,
    reducer_of,
)

if TYPE_CHECKING:
    from simkit.trace.views.view import View


# The state of one graph inside another


def reducers_of(channels: Mapping[str, e.ChannelFacts]) -> dict[str, Reducer]:
    """Return the reducers of channels; for reducers that are user code, values replace."""
    return {
        name: reducer_of(
            channel.reducer if channel.reducer in BUILT_IN else "replace", channel.last
        )
        for name, channel in channels.items()
    }


class InnerState:
    """The channel values of a graph inside another."""

    def __init__(self, event: e.StateOpened, around: Mapping[str, Any]) -> None:
        """``around`` are the channel values of the surrounding state."""
        self.channels = event.channels
        self.reducers = reducers_of(event.channels)
        self.values: dict[str, Any] = {
            name: empty_value(channel.reducer, channel.default)
            for name, channel in event.channels.items()
        }
        self.values.update((name, around[name]) for name in event.shares if name in around)

    def take(self, update: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Apply an update, and the new ``values`` that were recorded for it."""
        current = dict(self.values)
        for name, delta in update.items():
            if name in values:
                current[name] = values[name]
            elif name in self.reducers:
                current[name] = self.reducers[name](current.get(name), delta)
        self.values = current


def joined_updates(
    before: Mapping[str, Any], update: Mapping[str, Any], channels: Mapping[str, e.ChannelFacts]
) -> dict[str, Any]:
    """Return all that a run wrote, if it wrote some channels more than once."""
    values = {**before}
    for name, delta in update.items():
        facts = channels.get(name)
        is_first = name not in before or is_reset(delta)
        if is_first or facts is None or facts.reducer not in BUILT_IN:
            values[name] = delta
            continue
        value = before[name]
        start = empty_value(facts.reducer, value[DECLARED_RESET] if is_reset(value) else value)
        whole = BUILT_IN[facts.reducer](start, delta)
        values[name] = {DECLARED_RESET: whole} if is_reset(value) else whole
    return values


# All channels


NESTED: Final = (dict, list)
"""Types of values that may hold references to messages."""


class States:
    """The values of all channels over a trace, with what each run received and wrote.

    ``read`` takes the events into account that the view has read since the last call.
    """

    def __init__(self, view: View) -> None:
        self._view, self._hi = view, 0
        self.start: dict[str, Any] = {}
        """The values with which sessions begin."""
        self.values: dict[str, dict[str, Any]] = {}
        """Session to the current values of its channels."""
        self.received: dict[str, Any] = {}
        """Run to its input beside the user's message: the state that it saw."""
        self.updates: dict[str, dict[str, Any]] = {}
        """Run to all that it wrote."""
        self.before: dict[int, Mapping[str, Any]] = {}
        """Index of a turn's first event to the values before the turn."""
        self.after: dict[int, Mapping[str, Any]] = {}
        """The same for the values at its end."""
        self.turn_updates: dict[int, list[e.StateUpdated]] = {}
        """The same for the turn's updates."""
        self._reducers: dict[str, Reducer] = {}
        """Channels that outlive an agent run, with their reducers."""
        self._shared: dict[str, str] = {}
        """Channels that sessions share, with their scopes."""
        self._of_turn: list[str] = []
        self._turn_at = -1
        """The index of the current turn's first event."""
        self._waiting: set[str] = set()
        """Sessions whose last turn waits for the user."""
        self._branches: dict[str, dict[str, Any]] = {}
        """Parallel branch to the state that its runs see."""
        self._outer: dict[str, str] = {}
        """Parallel branch to the branch in which its group began; empty for none."""
        self._groups: dict[str, dict[str, Any]] = {}
        """Parallel group to the state when it began."""
        self._pending: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
        """Parallel branch to the updates of its runs that no later run has seen yet."""
        self._inner: dict[str, InnerState] = {}
        """The states of inner graphs, by name."""
        self._last_values: dict[tuple[str, str, str, str], Any] = {}
        """Session, state, field and channel to the value that was written there last."""
        self._has_changes = False
        """Whether a change stands in the event that is read."""
        self._whole: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        """Event that has changes (its id) to its update and its new values, as a whole."""

    def read(self) -> dict[str, dict[str, Any]]:
        """Return the current values of each session's channels."""
        view = self._view
        while self._hi < view.hi:
            event = view.events[self._hi]
            self._hi += 1
            add = _HANDLERS[type(event)]
            if add is not None:
                add(self, event)
        return self.values

    def whole(self, event: e.StateUpdated) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the update and the new values of an event that has changes, as whole values."""
        self.read()
        return self._whole[id(event)]

    # Handlers, in the order of a run.

    def _run_started(self, event: e.RunStarted) -> None:
        for name, channel in event.pipeline.channels.items():
            if channel.scope == "agent_run":
                continue
            self.start[name] = empty_value(channel.reducer, channel.default)
            reducer = channel.reducer if channel.reducer in BUILT_IN else "replace"
            self._reducers[name] = reducer_of(reducer, channel.last)
            if channel.scope in ("project", "global"):
                self._shared[name] = channel.scope
            if channel.scope == "turn":
                self._of_turn.append(name)

    def _session_started(self, event: e.SessionStarted) -> None:
        projects = self._view.projects
        state = dict(self.start)
        for session, other in self.values.items():
            same_project = projects.get(session) == event.project
            for name, channel in self._view.pipeline.channels.items():
                if channel.scope == "global" or (channel.scope == "project" and same_project):
                    state[name] = other[name]
        self.values[event.session] = state

    def _turn_started(self, event: e.TurnStarted) -> None:
        self._turn_at = self._hi - 1
        self.before[self._turn_at] = self.values.get(event.session, {})
        self.turn_updates[self._turn_at] = []
        if event.session in self._waiting:
            self._waiting.remove(event.session)
            if event.message:
                # The user sent something else: the values of the interrupted turn are gone.
                self._clear_turn(event.session)

    def _agent_started(self, event: e.AgentStarted) -> None:
        state = self.values.get(event.session, {})
        if event.state:
            state = self._inner[event.state].values
        elif event.group:
            outer = self._branch_state(event.outer, state)
            state = self._branches[event.run] = self._groups.setdefault(event.group, outer)
            self._outer[event.run] = event.outer
        elif event.branch:
            state = self._branch_state(event.branch, state)
        if event.channels is not None:
            state = {name: state[name] for name in event.channels if name in state}
        self.received[event.run] = None if event.is_unseen else state
        if event.received is not None:
            more = self._view.resolved(event.received)
            self.received[event.run] = {**state, **more} if isinstance(more, Mapping) else more

    def _state_opened(self, event: e.StateOpened) -> None:
        around = self._inner.get(event.around)
        values = self.values.get(event.session, {}) if around is None else around.values
        self._inner[event.state] = InnerState(event, values)

    def _state_updated(self, event: e.StateUpdated) -> None:
        update = self._values_in(event, UPDATE, event.update)
        computed = self._values_in(event, VALUES, event.values) if event.values else {}
        if self._has_changes:
            self._whole[id(event)], self._has_changes = (update, computed), False
        if event.state:
            self._inner[event.state].take(update, computed)
        else:
            self._session_updated(event, update, computed)
        if self._turn_at in self.turn_updates:
            self.turn_updates[self._turn_at].append(event)
        if event.run in self.updates:
            channels = self._view.channels_of(event)
            update = joined_updates(self.updates[event.run], update, channels)
        if event.run in self.received:
            self.updates[event.run] = update

    def _values_in(
        self, event: e.StateUpdated, field: str, raws: Mapping[str, JsonValue]
    ) -> dict[str, Any]:
        """Return what a field of an event has for channels: whole, with references resolved."""
        values: dict[str, Any] = {}
        for name, raw in raws.items():
            key, resets = (event.session, event.state, field, name), is_reset(raw)
            self._has_changes = self._has_changes or is_change(raw)
            value = apply_change(
                self._last_values.get(key),
                raw[DECLARED_RESET] if resets else raw,
                self._view.resolved,
            )
            self._last_values[key] = value
            values[name] = {DECLARED_RESET: value} if resets else value
        return values

    def _session_updated(
        self, event: e.StateUpdated, update: Mapping[str, Any], computed: Mapping[str, Any]
    ) -> None:
        """Apply an update of a session's channels."""
        state = dict(self.values.get(event.session, self.start))
        reducers = self._reducers
        for name in update:
            delta = update[name]
            if name in computed:
                if name in reducers or name not in self._view.pipeline.channels:
                    state[name] = computed[name]
            elif name in reducers:
                state[name] = reducers[name](state.get(name), delta)
            elif name not in self._view.pipeline.channels:
                # Nobody declared the state of this code: it reports each new value as a whole.
                state[name] = delta[DECLARED_RESET] if is_reset(delta) else delta
            if name in self._shared:
                self._share(event.session, name, state[name], self._shared[name])
        self.values[event.session] = state
        if event.branch:
            self._note_in_branches(event, update)

    def _branch_state(self, branch: str, otherwise: dict[str, Any]) -> dict[str, Any]:
        """Return the state that the next run of a branch sees; pending writes are applied now."""
        pending = self._pending.get(branch)
        if not pending:
            return self._branches.get(branch, otherwise)
        state = dict(self._branches[branch])
        for update, own in pending:
            for name, delta in update.items():
                if name in own:
                    state[name] = self._view.resolved(own[name])
                elif name in self._reducers:
                    state[name] = self._reducers[name](state.get(name), delta)
        pending.clear()
        self._branches[branch] = state
        return state

    def _note_in_branches(self, event: e.StateUpdated, update: Mapping[str, Any]) -> None:
        branch, computed = event.branch, event.branch_values or {}
        while branch in self._branches:
            self._pending.setdefault(branch, []).append((update, computed.get(branch, {})))
            branch = self._outer[branch]

    def _share(self, session: str, channel: str, value: Any, scope: str) -> None:
        projects = self._view.projects
        for other in self.values:
            near = scope == "global" or projects.get(other) == projects.get(session)
            if other != session and near:
                self.values[other] = {**self.values[other], channel: value}

    def _turn_finished(self, event: e.TurnFinished) -> None:
        self.after[self._turn_at] = self.values.get(event.session, self.start)
        if event.waits_for:
            self._waiting.add(event.session)
        else:
            self._clear_turn(event.session)

    def _clear_turn(self, session: str) -> None:
        states = dict(self.values.get(session, self.start))
        for name in self._of_turn:
            states[name] = self.start[name]
        self.values[session] = states


def handlers_of(view: type) -> Mapping[type, Callable[[Any, Any], None] | None]:
    """Return each kind of event with the view's method for it: `_turn_started` for TurnStarted.

    It is None for a kind that the view does not show.
    """
    names = {kind: re.sub("(?=[A-Z])", "_", kind.__name__).lower() for kind in e.AnyEvent.__args__}
    return {kind: getattr(view, name, None) for kind, name in names.items()}


_HANDLERS: Final = handlers_of(States)

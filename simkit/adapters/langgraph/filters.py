"""Filters that drop messages from contexts, with their names and the dropped messages.

Observed are messages that a node removes from the state (`RemoveMessage`; also by middleware), the
`llm_input_messages` of a hook before the model, requests that middleware overrides, and LangChain's
`trim_messages` and `filter_messages`. All but the first concern only the next model call, and are
reported only if their result is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from langchain_core.messages import BaseMessage, RemoveMessage
from langchain_core.messages.utils import filter_messages, trim_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.graphs import HOOKS
from simkit.adapters.langgraph.messages import as_message, listeners, text_of

MESSAGES: Final = "messages"
FOR_THE_MODEL: Final = "llm_input_messages"
"""The key of `pre_model_hook` for messages to the model only."""
FUNCTIONS: Final = (trim_messages, filter_messages)
NAMES: Final = frozenset(function.__name__ for function in FUNCTIONS)


class _Filter(msgspec.Struct, frozen=True):
    """A filter before a model call."""

    before: Sequence[BaseMessage]
    after: Sequence[BaseMessage]
    by: str


class Filters:
    """Reports messages that filters dropped from contexts."""

    def __init__(self, recorder: api.TraceRecorder) -> None:
        self._recorder = recorder
        self._cuts: dict[str, tuple[api.Omission, ...]] = {}
        """Session to the messages removed from its state."""
        self._gone_below: list[tuple[tuple[str, ...], tuple[api.Omission, ...]]] = []
        """Inner graphs of this turn, with the messages removed there."""
        self._pending: dict[str, list[_Filter]] = {}
        """Run to the filters before its next model call."""

    def forget(self) -> None:
        """Begin a turn."""
        self._gone_below, self._pending = [], {}

    def restart(self) -> None:
        """Begin a call of a graph without memory."""
        self._cuts.pop(self._recorder.session, None)

    def run_began(self, run: api.Run, path: tuple[str, ...]) -> None:
        """Begin a run with the removed messages of its state."""
        if not self._gone_below and not self._cuts:
            return
        below = (cuts for where, cuts in self._gone_below if where == path[: len(where)])
        earlier_cuts = self._cuts.get(self._recorder.session, ())
        run.lasting_cuts = (
            *earlier_cuts,
            *(cut for cuts in below for cut in cuts),
            *run.lasting_cuts,
        )

    def wrote(
        self, run: api.Run, path: tuple[str, ...], node: str, input: Any, result: Any
    ) -> None:
        """Handle the result of a node of the graph at a path."""
        for update in _updates_in(result):
            for key, value in update.items():
                if key == FOR_THE_MODEL and value:
                    self.narrowed(run, _messages_at(input, MESSAGES), value, _name_of(node))
                    continue
                removed = _removed_by(value)
                before = _messages_at(input, key) if removed else []
                if before:
                    after = _rest(before, value, removed)
                    self._removed(run, path, before, after, _name_of(node))

    def _removed(
        self,
        run: api.Run,
        path: tuple[str, ...],
        before: Sequence[Any],
        after: Sequence[Any],
        by: str,
    ) -> None:
        unknown_run = api.Run("", run.agent)
        self._tell(unknown_run, _Filter(before, after, by), lasting=True)
        cuts = unknown_run.lasting_cuts
        run.lasting_cuts = (*run.lasting_cuts, *cuts)
        if path:
            self._gone_below.append((path, cuts))
        else:
            session = self._recorder.session
            self._cuts[session] = (*self._cuts.get(session, ()), *cuts)

    def narrowed(self, run: api.Run, before: Sequence[Any], after: Sequence[Any], by: str) -> None:
        """Record a filter that dropped messages; the model call decides later whether it counts."""
        if before and all(isinstance(message, BaseMessage) for message in (*before, *after)):
            self._pending.setdefault(run.id, []).append(_Filter(before, after, by))

    def asks(self, run: api.Run, messages: Sequence[BaseMessage]) -> None:
        """Handle a model call: the filters that led to its messages count."""
        if run.id not in self._pending:
            return
        pending = self._pending.pop(run.id)
        looks = {_look(filter) for filter in messages}
        missing: set[tuple[str, str]] = set()
        for filter in pending:
            left = {_look(message) for message in filter.after if message.type != "system"}
            before = [message for message in filter.before if _look(message) not in missing]
            dropped = {_look(message) for message in before if message.type != "system"} - left
            if left and left <= looks and dropped.isdisjoint(looks):
                missing |= dropped
                self._tell(run, msgspec.structs.replace(filter, before=before))

    def _tell(self, run: api.Run, filter: _Filter, *, lasting: bool = False) -> None:
        before = [as_message(message) for message in filter.before]
        after = [as_message(message) for message in filter.after]
        self._recorder.filtered(run, before, after, filter.by, lasting=lasting)


def may_filter(result: Any) -> bool:
    """Return whether the result of a node may drop messages."""
    if type(result) is not dict:
        return True
    for key in result:
        value = result[key]
        kinds = set(map(type, value)) if type(value) is list else (type(value),)
        if key == FOR_THE_MODEL or True in map(_removes, kinds):
            return True
    return False


@lru_cache(maxsize=256)
def _removes(kind: type) -> bool:
    return issubclass(kind, RemoveMessage)


def _look(message: BaseMessage) -> tuple[str, str]:
    return message.type, text_of(message)


def _name_of(node: str) -> str:
    """Return a filter's name: a node's, or that of the middleware with this hook."""
    hook = next((hook for hook in HOOKS if node.endswith(hook)), "")
    return node.removesuffix(hook)


def _updates_in(result: Any) -> Iterator[Mapping[str, Any]]:
    for result_part in result if isinstance(result, (list, tuple)) else (result,):
        update = result_part.update if isinstance(result_part, Command) else result_part
        if isinstance(update, Mapping):
            yield update


def _messages_at(input: Any, channel: str) -> list[BaseMessage]:
    """Return the messages of a channel in a node's input; empty if there are none."""
    value = input.get(channel) if isinstance(input, Mapping) else getattr(input, channel, None)
    is_said = isinstance(value, list) and all(isinstance(message, BaseMessage) for message in value)
    return value if is_said and value is not None else []


def _removed_by(value: Any) -> set[str | None]:
    """Return the ids of the messages that an update of a channel removes."""
    update = value if isinstance(value, list) else [value]
    return {message.id for message in update if isinstance(message, RemoveMessage)}


def _rest(before: Sequence[BaseMessage], value: Any, removed: set[str | None]) -> list[BaseMessage]:
    """Return the rest of a channel's messages after an update that removes some."""
    if REMOVE_ALL_MESSAGES not in removed:
        return [message for message in before if message.id not in removed]
    update = value if isinstance(value, list) else [value]
    index = max(
        k for k, message in enumerate(update) if getattr(message, "id", "") == REMOVE_ALL_MESSAGES
    )
    return [message for message in update[index + 1 :] if isinstance(message, BaseMessage)]


# Filters that are no nodes


def filter_rows() -> list[api.Row]:
    """Return replacements that observe middleware and LangChain's own filters."""
    inner: list[api.Row] = [(function, _FUNCTION, _filtering) for function in _INNER]
    return [*inner, *((*slot, _override) for slot in compat.middleware_requests())]


class _Inner:
    """The inner function of one of LangChain's filters, which every holder of the filter calls."""

    cell: Any
    function: Any

    def __init__(self, filtering: Any) -> None:
        cell = compat.worker_cell(filtering)
        vars(self).update(cell=cell, function=cell.cell_contents)

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace the ``function``."""
        vars(self)["cell"].cell_contents = vars(self)[name] = value


_INNER: Final = tuple(map(_Inner, FUNCTIONS))
_FUNCTION: Final = "function"


@listeners.around
def _filtering(
    listener: Any, before: api.Replacement, messages: Any, *args: Any, **kwargs: Any
) -> Any:
    remaining = before(messages, *args, **kwargs)
    if isinstance(messages, list) and isinstance(remaining, list):
        listener.narrowed(messages, remaining, before.__name__)
    return remaining


@listeners.around
def _override(listener: Any, before: api.Replacement, self: Any, **overrides: Any) -> Any:
    if "messages" in overrides:
        listener.narrowed(self.messages, overrides["messages"], "")
    return before(self, **overrides)


def wrapping(graph: Any) -> list[str]:
    """Return the names of the middleware around the model of a prebuilt agent."""
    node = graph.nodes.get("model") if graph is not None else None
    functions: dict[str, None] = {}
    _look_into(getattr(getattr(node, "bound", None), "func", None), functions, 8)
    return list(functions)


def _look_into(value: Any, functions: dict[str, None], depth: int) -> None:
    owner = getattr(value, "__self__", None)
    if owner is not None and hasattr(type(owner), "wrap_model_call"):
        functions[str(owner.name)] = None
        return
    if not depth or not callable(value):
        return
    inner = [getattr(value, "__wrapped__", None)]
    inner += [_contents(cell) for cell in getattr(value, "__closure__", None) or ()]
    for inner_value in inner:
        for below in inner_value if isinstance(inner_value, (list, tuple)) else [inner_value]:
            if callable(below):
                _look_into(below, functions, depth - 1)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # It is not filled yet.

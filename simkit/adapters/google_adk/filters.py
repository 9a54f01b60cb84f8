"""Filters of histories before a model call: the agent's settings, and callbacks.

Histories are compared in the form in which a Gemini model gets them. For other models' providers
only the contexts are known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from google.adk.models import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin

from simkit.adapters.api import (
    Message,
    Replacement,
    Row,
    Run,
    function_name,
    observe_result,
    parse_messages,
)
from simkit.adapters.google_adk import compat

Hears: TypeAlias = Callable[[], "tuple[Any, Run] | None"]
"""Returns the log of this code, and the run whose request is being prepared."""

SHORTENED: Final = "include_contents"


async def shortened(log: Any, run: Run, context: Any) -> None:
    """Report the messages that an agent with ``include_contents`` does not get.

    Such an agent gets only the current turn.
    """
    agent = context.agent
    if getattr(agent, "include_contents", "default") == "default" or not is_geminis(agent):
        return
    whole = agent.model_copy(update={"include_contents": "default"})
    before = await _history(context.model_copy(update={"agent": whole}))
    after = await _history(context)
    if len(before) != len(after):
        with log.writing():
            log.recorder.filtered(run, before, after, SHORTENED)


async def _history(context: Any) -> list[Message]:
    """Return the session's messages for an agent, before any filter."""
    request = LlmRequest()
    async for _ in compat.contents_processor.run_async(context, request):
        pass
    return _messages(request.contents)


def is_geminis(agent: Any) -> bool:
    """Return whether an agent's histories can be compared, because its model is Gemini."""
    return isinstance(getattr(agent, "canonical_model", None), Gemini)


def _messages(contents: Sequence[Any]) -> list[Message]:
    """Return contents parsed as in a request."""
    contents_data = [
        content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents
    ]
    return parse_messages(contents_data, "gemini")


def heard_plugins(plugins: Iterable[Any], hears: Hears) -> Iterator[Row]:
    """Yield replacements that observe the plugins that see requests, each class once."""
    for plugin in plugins:
        for owner in type(plugin).__mro__:
            if compat.PLUGIN_CALLBACK in vars(owner):
                if owner is not BasePlugin:
                    yield owner, compat.PLUGIN_CALLBACK, lambda wrapper: _of_plugin(wrapper, hears)
                break


def _of_plugin(before: Replacement, hears: Hears) -> Replacement:
    @functools.wraps(before)
    async def before_model_callback(self: Any, **kwargs: Any) -> Any:
        looked = _Look(hears(), self.name, kwargs.get("llm_request"))
        answer = await before(self, **kwargs)
        looked.again(answer)
        return answer

    return before_model_callback


def heard_callbacks(callbacks: Sequence[Any], hears: Hears) -> list[Any]:
    """Return callbacks wrapped so that their changes are reported."""
    return [_of_callback(callback, hears) for callback in callbacks]


def _of_callback(callback: Any, hears: Hears) -> Any:
    name = function_name(callback)

    # The ADK reads from the signature how to call a callback.
    @functools.wraps(callback)
    def tell(*args: Any, **kwargs: Any) -> Any:
        requests = (value for value in (*args, *kwargs.values()) if isinstance(value, LlmRequest))
        looked = _Look(hears(), name, next(requests, None))
        return observe_result(callback(*args, **kwargs), looked.again)

    return tell


class _Look:
    """A request before a filter."""

    def __init__(
        self, listeners: tuple[Any, Run] | None, by: str, request: LlmRequest | None
    ) -> None:
        self._listeners, self._by, self._request = listeners, by, request
        self._before = self._now() if listeners is not None else []

    def _now(self) -> list[Message]:
        return _messages(self._request.contents) if self._request is not None else []

    def again(self, answer: Any) -> None:
        """Report the dropped messages; a callback that answers itself has dropped none."""
        if self._listeners is None or answer is not None:
            return
        after = self._now()
        if after == self._before:
            return
        log, run = self._listeners
        with log.writing():
            log.recorder.filtered(run, self._before, after, self._by)

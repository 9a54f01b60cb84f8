"""Plain pipelines: a function of the user's message, and whatever it calls."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from simkit.adapters.app_options import object_behind, put_given_state
from simkit.adapters.entry import Responder, build
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver, SessionMemory
from simkit.adapters.input_shapes import (
    fields_taken,
    fitted,
    given_input,
    input_advice,
    parameter_type,
    type_advice,
)
from simkit.language.yaml import SourcePath
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App


class FunctionDriver(FrameworkDriver):
    """Runs a function of the user's message.

    It does not observe nodes, sections, and state without annotations (`simkit.state`).
    """

    name = "python"
    app_options: Collection[str] = ("call", "input")

    def __init__(
        self, subject: Any, app: App, adapter_context: AdapterContext, subject_value: Any = None
    ) -> None:
        """``subject_value`` is the result of the factory ``subject`` for the first session."""
        self._subject, self._app, self._adapter_context = subject, app, adapter_context
        self._subject_value = subject_value
        self._responders = SessionMemory(self._begin)

    def run_turn(self, turn: UserTurn) -> Any:
        """Call the function with the user's message."""
        if turn.resumes:
            raise self._adapter_context.asks_nothing(
                f"which `{self._app.entry}` cannot make: it is a function of the user's message."
            )
        return self.reply_to(turn)

    def reply_to(self, turn: UserTurn) -> Any:
        """Return what the function replies to the user's message, or to what is made of it."""
        value = turn.text if turn.value is None else turn.value
        path: SourcePath = ("turns", self._adapter_context.recorder.turn - 1, "user")
        if self._app.options.input is not None:
            value, path = given_input(self._app.options.input, value), ("app", "input")
        responder = self._responders.of(turn)
        if not isinstance(value, str):
            value = fitted(value, parameter_type(responder), self._app.entry, path)
        return self._adapter_context.caller.call(responder, value)

    def input_advice(self, turn: UserTurn, problem: BaseException) -> str:
        """Return what to do if the function takes no text, and got one."""
        if turn.resumes or self._app.options.input is not None:
            return ""
        if not isinstance(turn.value, str | None):
            return ""
        responder = self._responders.of(turn)
        schemas = fields_taken(responder)
        if schemas is not None:
            return input_advice(self._app.entry, schemas)
        return type_advice(self._app.entry, parameter_type(responder))

    def _begin(self, turn: UserTurn) -> Responder:
        # The object made before the first turn belongs to another session if others came before.
        subject_value = None if turn.turns_before else self._subject_value
        self._subject_value = None
        responder = build(
            self._app.entry,
            self._subject,
            self._app.options.call,
            turn.session,
            subject_value,
            self._adapter_context.caller.call,
        )
        recorder = self._adapter_context.recorder
        put_given_state(self._app, recorder, object_behind(responder), session=turn.session)
        return responder

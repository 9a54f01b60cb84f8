"""The talk of servers: what MCP servers ask the user (elicitation) or a model (sampling)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

from simkit.adapters.model_interceptor import ModelInterceptor
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core.errors import ScriptBroken, ScriptMisfit, ToolMissing
from simkit.core.messages import JsonValue, Message
from simkit.core.stopping import halting_at
from simkit.language.json_schema import place_text, schema_errors
from simkit.providers import mcp
from simkit.runtime.ports import Tools
from simkit.spec.scenario.replies import answer_name
from simkit.trace.store import canonical

_REFUSALS: Final = ("decline", "cancel")


class ServerQuestions:
    """The questions of a run's servers; any thread may ask."""

    def __init__(self, recorder: TraceRecorder, gate: ModelInterceptor, tools: Tools) -> None:
        self._recorder, self._gate, self._tools = recorder, gate, tools
        self._numbers = count(1)
        self._calls: dict[tuple[str, bool, JsonValue], str] = {}
        """The server, whether it asks, and the id of an open request, to its name in the trace."""
        self._sampling: list[tuple[str, JsonValue]] = []
        """The servers that ask a model now, with what they ask."""
        gate.other_requests.sampling_server = self.sampling_server

    def hear(self, server: str, lines: bytes, *, is_servers: bool) -> None:
        """Record requests and answers of a client, or of the server, beside the run."""
        for message in map(mcp.decoded, lines.splitlines()):
            number = message.get("id") if isinstance(message, dict) else None
            if mcp.is_request(message):
                call = self._request(server, message["method"], message.get("params"))
                self._calls[server, is_servers, number] = call
            elif number is not None:
                call = self._calls.pop((server, not is_servers, number), "")
                body = {key: message[key] for key in ("result", "error") if key in message}
                self._response(server, call, body)

    def _request(self, server: str, method: str, params: JsonValue) -> str:
        call, events = f"{server}:{next(self._numbers)}", self._recorder.events
        facts = {"call": call, "server": server, "method": method, "url": f"mcp:{server}"}
        with self._gate.lock:
            events.record_request(self._recorder.at(), **facts, body=canonical(params))
        return call

    def _response(self, server: str, call: str, body: JsonValue) -> None:
        facts = {"call": call, "server": server, "body": canonical(body)}
        with self._gate.lock:
            self._recorder.events.record_response(self._recorder.at(), **facts, status=200)

    def note_fault(self, fault: str) -> None:
        """Record how a server has failed."""
        with self._gate.lock:
            self._recorder.events.record_fault(self._recorder.at(), fault=fault)

    def begin(self, server: str, question: Mapping[str, Any]) -> None:
        """Note that a client is asked."""
        if question["method"] == mcp.SAMPLE:
            self._sampling.append((server, question.get("params") or {}))

    def answer(self, server: str, message: Mapping[str, Any]) -> dict[str, JsonValue] | None:
        """Return the scenario's answer to a server's question; None if its client is asked."""
        name, params = answer_name(server), message.get("params") or {}
        with self._gate.lock:
            if message.get("method") != mcp.ELICIT or not self._tools.has_result_for(name):
                return None
            with halting_at(self._gate.halt, (ToolMissing, ScriptBroken)):
                answer = self._tools.call("", name, params)
                schema = {} if answer.result in _REFUSALS else params.get("requestedSchema")
                for path, problem in schema_errors(schema or {}, answer.result):
                    where = place_text(path).lstrip(".") or "the answer"
                    text = f"server `{server}` asks for another answer: {where}: {problem}"
                    raise ScriptMisfit(text, answer.path)
        consent = {"action": "accept", "content": answer.result}
        body = {"result": {"action": answer.result} if answer.result in _REFUSALS else consent}
        self._response(server, self._request(server, mcp.ELICIT, params), body)
        return body

    def end(self, server: str, question: Mapping[str, Any]) -> None:
        """Note that a client has answered a question."""
        entry = server, question.get("params") or {}
        self._sampling = [each for each in self._sampling if each != entry]

    def sampling_server(self, messages: Iterable[Message]) -> str:
        """Return the server whose request has become these messages of a model call."""
        texts = [message.content for message in messages]
        for server, params in self._sampling:
            prompts = mcp.sampled_texts(params)
            if prompts and any(prompts[-1] in text for text in texts):
                return server
        return ""

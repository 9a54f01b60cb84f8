"""A2A: remote agents, as their clients ask them over JSON-RPC. Pure.

A request tells its version by its method: ``message/send`` is of 0.3, ``SendMessage`` of 1.0. Both
say the same in other words. Sources: a2a-protocol.org/v0.3.0/specification, and
a2a-protocol.org/latest/specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message
from simkit.providers import failures, sse
from simkit.providers.body_reader import json_bytes, record_of
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse
from simkit.providers.values import (
    JSON,
    OutgoingReply,
    ParsedRequest,
    ParsedResponse,
    Protocol,
    empty_reply,
)

NAME: Final = "a2a"
_SENDS: Final = {
    "message/send": False,
    "SendMessage": False,
    "message/stream": True,
    "SendStreamingMessage": True,
}
"""Methods that ask the agent to whether they ask for a stream."""
_READS: Final = ("tasks/get", "GetTask", "tasks/resubscribe", "SubscribeToTask")
_CANCELS: Final = ("tasks/cancel", "CancelTask")
CODES: Final = {
    "task_not_found": -32001,
    "task_not_cancelable": -32002,
    "push_notification_not_supported": -32003,
    "unsupported_operation": -32004,
    "content_type_not_supported": -32005,
    "invalid_agent_response": -32006,
    "extension_support_required": -32008,
    "version_not_supported": -32009,
    "invalid_params": -32602,
    "method_not_found": -32601,
    "internal_error": -32603,
}
"""The protocol's own errors, as a reply line names them, to their codes."""
_CARDS: Final = re.compile(r"(?P<base>.*?)/\.well-known/agent(?:-card)?\.json$")


class Task(msgspec.Struct):
    """A task that the agent has begun."""

    id: str
    context: str
    state: str
    artifacts: Sequence[JsonValue] = ()
    message: JsonValue = None
    """The message of its status; None if it has none."""


Tasks = dict[str, Task]
"""Tasks by their ids."""


def card_for(request: HttpRequest, name: str, given: Mapping[str, JsonValue]) -> JsonValue | None:
    """Return the agent's card, which both versions read; None for a request of another thing."""
    match = _CARDS.search(request.url.partition("?")[0])
    if request.method != "GET" or match is None:
        return None
    url = str(given.get("url") or match["base"] or request.url)
    skill = {"id": name, "name": name, "description": str(given.get("description", "")), "tags": []}
    interface = {"url": url, "protocolBinding": "JSONRPC"}
    return {
        "name": name,
        "description": "",
        "version": "1.0.0",
        "url": url,
        "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC",
        "supportedInterfaces": [{**interface, "protocolVersion": each} for each in ("1.0", "0.3")],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [skill],
        **given,
    }


def drop_ids(body: dict[str, Any]) -> None:
    """Remove the ids that a client makes up from a request; leave other bodies alone."""
    params = body.get("params")
    if body.get("method") in _SENDS and isinstance(params, dict):
        body.pop("id", None)
        if isinstance(params.get("message"), dict):
            params["message"].pop("messageId", None)


class Exchange:
    """One request to a remote agent, and what answers it."""

    def __init__(self, body: Mapping[str, Any], tasks: Tasks, *, as_task: bool) -> None:
        """``as_task``: a reply is a task with an artifact, not a message."""
        self._body, self._tasks, self._as_task = body, tasks, as_task
        self._method = str(body.get("method"))
        self._is_old = "/" in self._method
        params = body.get("params")
        self._params: Mapping[str, Any] = params if isinstance(params, Mapping) else {}

    @property
    def is_for_agent(self) -> bool:
        """Return whether the agent itself is asked."""
        return self._method in _SENDS

    @property
    def protocol(self) -> Protocol:
        """Return the protocol by which this request is read and answered."""
        return Protocol(
            name=NAME,
            variables={},
            keys=(),
            speaks=lambda request: False,  # Nothing in an address tells; a scenario's server does.
            parse_request=self.parse,
            served=self.serve,
            failed=self.fail,
            parse_response=self.parse_response,
        )

    # Requests to the agent

    def parse(self, request: HttpRequest) -> ParsedRequest:
        """Return what the agent is sent; raise WireInvalid."""
        message = self._params.get("message")
        if not isinstance(message, Mapping) or not isinstance(message.get("parts"), list):
            raise WireInvalid("is no message with parts", "params.message")
        content, data = _content(message["parts"])
        given = {**message, "configuration": self._params.get("configuration")}
        keys = ("contextId", "taskId", "configuration")
        settings = {key: given[key] for key in keys if given.get(key)}
        return ParsedRequest(
            NAME,
            "",
            (Message("user", content, data=data),),
            settings=settings,
            is_streamed=_SENDS[self._method],
        )

    # Answers without the agent

    def answer(self) -> HttpResponse:
        """Answer a request about tasks, or of a method that no agent has."""
        if self._method in (*_READS, *_CANCELS):
            task = self._tasks.get(str(self._params.get("id") or self._params.get("taskId")))
            if task is None:
                return self._error("task_not_found", "Task not found")
            if self._method in _CANCELS:
                if task.state in ("completed", "canceled", "failed"):
                    return self._error("task_not_cancelable", "Task cannot be canceled")
                task.state = "canceled"
            return self._results([self._task(task)], is_streamed="ubscribe" in self._method)
        return self._error("method_not_found", f"Method not found: {self._method}")

    # The agent's replies

    def serve(self, reply: OutgoingReply, request: ParsedRequest) -> HttpResponse:
        """Render a reply: a message, or a task with an artifact; raise WireInvalid."""
        if reply.message.calls:
            raise WireInvalid("a remote agent answers with text or JSON; it calls nothing", "calls")
        message = self._params["message"]
        context = str(message.get("contextId") or f"context-{reply.serial}")
        if not self._as_task and not reply.extras.raw:
            answer = self._message(reply.serial, context, self._parts(reply.message))
            return self._results([self._wrapped("message", answer)], request.is_streamed)
        task = Task(str(message.get("taskId") or f"task-{reply.serial}"), context, "completed")
        raw = reply.extras.raw or {}
        if "state" in raw:
            task.state = str(raw["state"])
            task.message = self._message(reply.serial, context, self._parts(reply.message))
        else:
            name = f"artifact-{reply.serial}"
            task.artifacts = [{"artifactId": name, "parts": self._parts(reply.message)}]
        self._tasks[task.id] = task
        if not request.is_streamed:
            return self._results([self._wrapped("task", self._task(task))], is_streamed=False)
        return self._results([*self._events(task, reply)], is_streamed=True)

    def _events(self, task: Task, reply: OutgoingReply) -> Iterator[JsonValue]:
        """Yield a task's stream: it begins, its artifact comes in pieces, it ends."""
        ids = {"taskId": task.id, "contextId": task.context}
        working = Task(task.id, task.context, "working")
        yield self._wrapped("task", self._task(working))
        parts = [self._parts(reply.message)] if task.artifacts else []
        if parts and reply.message.data is None:
            pieces = sse.pieces(reply.message.content, reply.chunks) or [""]
            parts = [self._parts(Message("assistant", piece)) for piece in pieces]
        for number, piece in enumerate(parts):
            artifact = {"artifactId": f"artifact-{reply.serial}", "parts": piece}
            is_last = number == len(parts) - 1
            update = {**ids, "artifact": artifact, "append": number > 0, "lastChunk": is_last}
            yield self._wrapped("artifactUpdate", update, "artifact-update")
        status = {**ids, "status": self._status(task)}
        status |= {"final": True} if self._is_old else {}
        yield self._wrapped("statusUpdate", status, "status-update")

    def _message(self, serial: str, context: str, parts: JsonValue) -> dict[str, JsonValue]:
        role = "agent" if self._is_old else "ROLE_AGENT"
        fields = {"messageId": f"message-{serial}", "role": role, "parts": parts}
        return {**fields, "contextId": context, **({"kind": "message"} if self._is_old else {})}

    def _parts(self, message: Message) -> list[JsonValue]:
        if message.data is not None:
            # Data of 0.3 is an object.
            is_whole = not self._is_old or isinstance(message.data, Mapping)
            data = message.data if is_whole else {"value": message.data}
            return [{"kind": "data", "data": data} if self._is_old else {"data": data}]
        text = {"text": message.content}
        return [{"kind": "text", **text} if self._is_old else text]

    def _task(self, task: Task) -> JsonValue:
        kind = {"kind": "task"} if self._is_old else {}
        artifacts = {"artifacts": [*task.artifacts]} if task.artifacts else {}
        fields = {"id": task.id, "contextId": task.context, "status": self._status(task)}
        return {**fields, **artifacts, **kind}

    def _status(self, task: Task) -> JsonValue:
        name = f"TASK_STATE_{task.state.upper().replace('-', '_')}"
        message = {"message": task.message} if task.message is not None else {}
        return {"state": task.state if self._is_old else name, **message}

    def _wrapped(self, key: str, value: Any, kind: str = "") -> JsonValue:
        """Return a result; in 0.3 its kind stands inside, in 1.0 around it."""
        if not self._is_old:
            return {key: value}
        return {**value, "kind": kind} if kind else value

    def _results(
        self, results: Sequence[JsonValue], is_streamed: bool, key: str = "result"
    ) -> HttpResponse:
        bodies = [{"jsonrpc": "2.0", "id": self._body.get("id"), key: each} for each in results]
        if not is_streamed:
            return HttpResponse(200, JSON, (json_bytes(bodies[0]),))
        kind = (("content-type", sse.CONTENT_TYPE),)
        return HttpResponse(200, kind, tuple(sse.frame(body) for body in bodies))

    # Failures

    def fail(self, serial: str, fails: Fails, request: ParsedRequest) -> HttpAnswer:
        """Render a failure: no response, a broken reply, the protocol's error, or a status."""
        if (nothing := failures.unanswered(fails)) is not None:
            return nothing
        if fails.kind in CODES:
            return self._error(fails.kind, fails.message, is_streamed=request.is_streamed)
        if fails.kind in failures.ON_THE_WAY:
            reply = msgspec.structs.replace(
                empty_reply(serial), message=Message("assistant", fails.message)
            )
            return failures.damaged(self.serve(reply, request), fails.kind)
        if fails.status < 400:
            return self._error("invalid_agent_response", fails.message)
        return msgspec.structs.replace(
            self._error("internal_error", fails.message), status=fails.status
        )

    def _error(self, kind: str, message: str, *, is_streamed: bool = False) -> HttpResponse:
        return self._results([{"code": CODES[kind], "message": message}], is_streamed, "error")

    # Answers of a real agent

    def parse_response(self, response: HttpResponse, request: ParsedRequest) -> ParsedResponse:
        """Parse an answer of a remote agent, streamed or not; raise WireInvalid."""
        if sse.is_stream(response):
            bodies = [record_of(data, "events") for _, data in sse.events(response.body)]
        else:
            bodies = [record_of(response.body)]
        texts, data, error = list[str](), None, None
        for body in bodies:
            if isinstance(body.get("error"), Mapping):
                error = _failure_in(body["error"])
            for parts in _parts_in(body.get("result")):
                text, data = _content(parts)
                texts.append(text)
        error = error or failures.broken(response.ends, is_whole=bool(bodies))
        return ParsedResponse(Message("assistant", "".join(texts), data=data), error=error)


def _content(parts: Sequence[Any]) -> tuple[str, JsonValue]:
    """Return the text of parts, and their data: that of a single one, a list of several."""
    texts, values = list[str](), list[JsonValue]()
    for part in parts:
        if not isinstance(part, Mapping):
            raise WireInvalid("is no part", "parts")
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
            continue
        value = part["data"] if "data" in part else part.get("file") or {**part}
        values.append(value)
        texts.append(json_bytes(value).decode())
    data = values[0] if len(values) == 1 else values or None
    return "\n".join(texts), data


def _parts_in(result: Any) -> Iterator[Sequence[Any]]:
    """Yield the parts of all messages and artifacts in a result of either version."""
    if isinstance(result, Mapping):
        if isinstance(result.get("parts"), list):
            yield result["parts"]
            return
        for key, value in result.items():
            if key not in ("history", "metadata"):
                yield from _parts_in(value)
    elif isinstance(result, list):
        for each in result:
            yield from _parts_in(each)


def _failure_in(error: Mapping[str, Any]) -> Fails:
    kinds = (kind for kind, code in CODES.items() if code == error.get("code"))
    kind = next(kinds, "server_error")
    return Fails(kind, 200, str(error.get("message", "")))

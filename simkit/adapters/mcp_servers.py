"""MCP servers of a scenario: those that it answers for, and real ones that it listens to.

A *declared* server is answered from the scenario, a *recorded* one from the cassette, which
`simkit record` fills from the real one, a *real* one by itself. Whatever answers, calls of tools
stand in the trace with their server, and `tool_results` replace single results.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

import msgspec

from simkit.adapters.concurrency.thread_turns import PATIENCE_S
from simkit.adapters.model_calls import GatedTraffic
from simkit.adapters.server_questions import ServerQuestions
from simkit.adapters.tool_use import ServedCall, ToolUse
from simkit.capture.http.stdio_servers import Answering, Observed
from simkit.core.errors import CassetteMissed, FunctionFailed, RunHalted
from simkit.core.messages import JsonValue
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.paths import as_text
from simkit.providers import mcp
from simkit.providers.http import HttpRequest, HttpResponse, header
from simkit.runtime.functions import schema_of
from simkit.spec.scenario.servers import McpServer, ServerTool

_TOLERATED: Final = ("ping", "logging/setLevel", "server/discover")
"""Methods that some versions of clients ask, and that need no recording."""
_NO_LIMIT: Final = (
    f"Its client has waited for {PATIENCE_S} s, and nothing else goes on.\n"
    "Give the client a limit of time, and a way to go on without the answer."
)
Ended = Callable[[str], None]
"""Receives how a server has ended before its time."""


class Exchange(msgspec.Struct, eq=False):
    """A request that a real server has still to answer."""

    message: Mapping[str, Any]
    take: Callable[[HttpResponse], None]
    """Takes the recorded form of the answer."""
    call: ServedCall | None = None
    """The tool's call; None for other requests."""
    before: list[dict[str, Any]] = []
    """The messages of the server before its answer; a question has the client's ``answer``."""
    question: dict[str, Any] | None = None
    """The question that the client has still to answer; None if there is none."""


class Dialogues:
    """The dialogues of a server with all its clients; a question waits for its answer."""

    def __init__(self, server: str, use: ToolUse) -> None:
        self._server, self._use = server, use
        self._questions: dict[JsonValue, tuple[Mapping[str, Any], mcp.Dialogue, JsonValue]] = {}
        """The id of a question to the request, its dialogue, and the question."""
        self._numbers = count(1)

    def take(self, answer: Mapping[str, Any]) -> list[JsonValue] | None:
        """Return what follows a client's answer; None if nothing was asked under its id."""
        entry = self._questions.pop(answer["id"], None)
        if entry is None:
            return None
        message, dialogue, question = entry
        self._use.questions.end(self._server, question)
        return self.begin(message, dialogue, answer)

    def begin(
        self,
        message: Mapping[str, Any],
        dialogue: mcp.Dialogue,
        answer: Mapping[str, Any] | None = None,
    ) -> list[JsonValue]:
        """Return what the server says to a request, or after an answer, up to its next question."""
        messages = list[JsonValue]()
        try:
            while True:
                each = dialogue.send(answer)
                answer = self._use.questions.answer(self._server, each)
                if answer is not None:
                    continue
                messages.append(each)
                if mcp.is_request(each):
                    self._use.questions.begin(self._server, each)
                    each["id"] = next(self._numbers)
                    self._questions[each["id"]] = message, dialogue, each
                    return messages
        except StopIteration:
            return messages
        except RunHalted as halted:  # The run ends when its turn does; the client waits until then.
            return [*messages, mcp.failure(message, str(halted.cause))]


class ServerSession(Answering):
    """One client's connection to a server; over HTTP, one request."""

    has_session = lasts = False
    silent_s = 0.0
    """How long the real server has been silent that owes an answer."""

    def __init__(self, name: str, questions: ServerQuestions) -> None:
        self._name, self._talk = name, questions

    def answer(self, line: bytes) -> bytes | None:
        """Return the lines that answer one of the client; None if the real server is to get it."""
        self._talk.hear(self._name, line, is_servers=False)
        answer = self.reply_to(line)
        self._talk.hear(self._name, answer or b"", is_servers=True)
        return answer

    def reply_to(self, line: bytes) -> bytes | None:
        """Return the lines of `answer`."""
        raise NotImplementedError

    def observe(self, line: bytes) -> Observed:
        """Observe a line of the real server."""
        self.silent_s = 0.0
        self._talk.hear(self._name, line, is_servers=True)
        return self.follow(line)

    def follow(self, line: bytes) -> Observed:
        """Return the consequences of a line of the real server."""
        return Observed()


class DeclaredServer(ServerSession):
    """A server that the scenario declares; all its clients share what has happened to it."""

    abilities: Mapping[str, Any] = {}
    """The abilities of the client that has greeted it last."""

    def __init__(self, name: str, declared: McpServer, use: ToolUse, ended: Ended) -> None:
        super().__init__(name, use.questions)
        self._use, self._ended = use, ended
        self._fault, self._changes = declared.fails, declared.changes
        self.fails = declared.fails.text if declared.fails and not declared.fails.at else ""
        self._dialogues = Dialogues(name, use)
        self._counts: Counter[str] = Counter()
        """Tool or method to the number of its requests."""
        self._hung: list[Mapping[str, Any]] = []
        """The requests that are never answered, whose clients have just begun to wait."""
        self._before: list[JsonValue] = []
        """Notifications that go before the next answer."""
        self.definition = mcp.Definition(
            name,
            declared.instructions,
            _tools(declared.tools),
            declared.resources,
            declared.prompts,
            changes=bool(declared.changes),
        )
        later = declared.changes.tools if declared.changes else ()
        for tool in (*self.definition.tools, *later):
            use.serve(tool, name)

    def session(self, *, is_process: bool) -> ServerSession:
        """Return a new client's connection, to a process or over HTTP."""
        if self.fails:
            self._ended(f"ended at its start: {self.fails}")
        return self

    def reply_to(self, line: bytes) -> bytes:
        """Return the answers to a client's message, or to several; empty for none."""
        message = mcp.decoded(line)
        if message is None:
            return _lines([mcp.NO_JSON])
        if isinstance(message, list):
            answers = [answer for each in message for answer in self._answers(each)]
            return _lines([answers] if answers else [])
        answers = self._answers(message)
        before, self._before = self._before, []
        return _lines([*before, *answers])

    def _answers(self, message: Any) -> list[JsonValue]:
        if not isinstance(message, dict) or "id" not in message:
            return []
        if "method" not in message:
            return self._dialogues.take(message) or []
        if message["method"] == "initialize":
            self.abilities = (message.get("params") or {}).get("capabilities") or {}
        if self._is_to_hang(message):
            assert self._fault is not None
            self._hung.append(message)
            return self._dialogues.begin(message, mcp.progress(message, 1, self._fault.text))
        dialogue = mcp.dialogue(message, self.definition, self.abilities, self._begin)
        return self._dialogues.begin(message, dialogue)

    def _is_to_hang(self, message: Mapping[str, Any]) -> bool:
        """Return whether nothing answers this request; raise ServerEnded if the server ends."""
        fault, params = self._fault, message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        if fault is None or fault.at not in (message["method"], name) or not fault.at:
            return False
        self._counts[fault.at] += 1
        if self._counts[fault.at] != fault.call:
            return False
        how = "never answers" if fault.hangs else "ended at"
        if message["method"] == "tools/call":
            args = (params or {}).get("arguments") or {}
            call = self._use.begin_for_server(self._name, str(name), args)
            self._use.end_for_server(call, None, f"the server {how} it: {fault.text}")
        self._ended(f"{how} call {fault.call} of {fault.at}: {fault.text}")
        if not fault.hangs:
            raise mcp.ServerEnded(fault.text)
        return True

    def outlast(self, say: Callable[[bytes], None]) -> None:
        """Let clients wait for what is never answered, as long as anything goes on."""
        recorder, hung, self._hung = self._use.recorder, self._hung, []
        for message in hung:
            self._use.outlast(
                lambda: (recorder.turn, recorder.clock.answers),
                partial(self._give_up, message, say),
            )

    def _give_up(self, message: Mapping[str, Any], say: Callable[[bytes], None]) -> None:
        self._use.halt(FunctionFailed(_NO_LIMIT))
        say(_lines([mcp.failure(message, _NO_LIMIT)]))

    def _begin(self, tool: str, args: JsonValue) -> mcp.Finish:
        definition = self.definition.tools[tool]
        if definition.args is not None:
            for path, problem in schema_errors(definition.args, args):
                where = place_text(path).lstrip(".") or "arguments"
                error = f"Invalid arguments for {tool}: {where}: {problem}"
                return lambda given: mcp.ToolOutcome(error=error)
        call = self._use.begin_for_server(self.definition.name, tool, args)
        return lambda given: self._finished(call, given)

    def _finished(self, call: ServedCall, given: mcp.ToolOutcome | None) -> mcp.ToolOutcome:
        if given is not None and (given.error or not call.result_name):
            self._use.end_for_server(call, given.result, given.error)
            return given
        reply = self._use.scripted_for_server(call)
        if self._changes is not None and call.tool == self._changes.after:
            tools = _tools(self._changes.tools)
            self.definition = msgspec.structs.replace(self.definition, tools=tools)
            self._before.append({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            self._changes = None
            self._ended(f"changed its tools after {call.tool}")
        return mcp.ToolOutcome(reply.result, reply.error or "")


def _tools(tools: Mapping[str, ServerTool]) -> dict[str, mcp.ToolDefinition]:
    written_out = {
        tool: {key: schema_of(getattr(each, key), {}) for key in ("args", "returns", "answer")}
        for tool, each in tools.items()
    }
    return {t: mcp.ToolDefinition(**{**vars(each), **written_out[t]}) for t, each in tools.items()}


class ForeignServer:
    """A server whose own answers count: those of the real one, or of the cassette."""

    def __init__(self, name: str, use: ToolUse, traffic: GatedTraffic | None, ended: Ended) -> None:
        """Without ``traffic``, the real server answers, and nothing is recorded."""
        self.name, self.use, self.traffic, self.ended = name, use, traffic, ended
        self.fails = ""
        self.is_real = traffic is None or traffic.is_live
        self.schemas: dict[str, JsonValue] = {}
        """Tool to the schema of its results."""
        self.known: dict[HttpRequest, HttpResponse] = {}
        """The answers of the cassette: a list is the same however often it is asked for."""
        self.dialogues = Dialogues(name, use)
        """Those of the cassette."""
        self.questions: dict[tuple[int, JsonValue], Exchange] = {}
        """The number of a process, 0 over HTTP, and the id of its question to the exchange."""
        self.processes = count(1)

    def session(self, *, is_process: bool) -> ServerSession:
        """Return a new client's connection, to a process or over HTTP."""
        return ForeignSession(self, next(self.processes) if is_process else 0)


class ForeignSession(ServerSession):
    """One client's connection to a server whose own answers count.

    A real process gets one request at a time, so that it answers in the same order every time.
    """

    def __init__(self, server: ForeignServer, process: int) -> None:
        super().__init__(server.name, server.use.questions)
        self._server, self.is_real, self._process = server, server.is_real, process
        self.fails = server.fails
        self._open: dict[JsonValue, Exchange] = {}
        """The id of a request to what the real server has still to answer."""
        self._queue: deque[bytes] = deque()
        self._has_begun = False

    @property
    def is_asked(self) -> bool:
        """Whether the real server owes an answer."""
        return any(each.question is None for each in self._open.values())

    def reply_to(self, line: bytes) -> bytes | None:
        """Return the lines of `answer`."""
        message = mcp.decoded(line)
        if not isinstance(message, dict) or not {"method", "id"} <= {*message}:
            if isinstance(message, dict) and "id" in message:
                return self._answered(message)
            return None if self.is_real else b""
        if self._process and self._open:
            self._queue.append(line)
            return b""
        try:
            return self._answer(message)
        except RunHalted as halted:
            return _lines([mcp.failure(message, str(halted.cause))])

    def _answered(self, answer: Mapping[str, Any]) -> bytes | None:
        """Take a client's answer to a question of the server."""
        server = self._server
        messages = server.dialogues.take(answer)
        if messages is not None:
            return _lines(messages)
        exchange = server.questions.pop((self._process, answer["id"]), None)
        if exchange is not None and exchange.question is not None:
            server.use.questions.end(server.name, exchange.question)
            exchange.question["answer"] = _outcome_of(answer)
            exchange.question = None
        return None if self.is_real else b""

    def _answer(self, message: Mapping[str, Any]) -> bytes | None:
        server, call = self._server, None
        recorded: HttpResponse | None = None
        take: Callable[[HttpResponse], None] = _take_nothing
        if message["method"] == "server/discover":
            # So clients of all versions shake hands, and find what others have recorded.
            return _lines([mcp.unknown_method(message)])
        if message["method"] == "tools/call":
            params = message.get("params") or {}
            args = params.get("arguments") or {}
            call = server.use.begin_for_server(server.name, str(params.get("name")), args)
            if call.result_name:
                return _lines([self._scripted(message, call)])
        if server.traffic is not None:
            try:
                recorded, take = self._recorded(message)
            except CassetteMissed as problem:
                if message["method"] in _TOLERATED:
                    return _lines([mcp.unknown_method(message)])
                raise server.use.halt(problem) from problem
        # A real server that goes on where a recording ends needs its greeting.
        if recorded is not None and not (self.is_real and message["method"] == "initialize"):
            try:
                answers = mcp.messages_of(recorded, message["id"])
            except mcp.ServerEnded as end:
                self._fail(message, call, str(end))
                raise
            self.has_session = bool(header(recorded.headers, mcp.SESSION[0][0]))
            return _lines(server.dialogues.begin(message, self._replayed(message, answers, call)))
        self._open[message["id"]] = Exchange(message, take, call, [])
        return None

    def _replayed(
        self, message: Mapping[str, Any], messages: list[dict[str, Any]], call: ServedCall | None
    ) -> mcp.Dialogue:
        """Yield what the recorded server says, as long as the client answers what it did."""
        server = self._server
        for each in messages:
            recorded = each.pop("answer", None)
            if each is messages[-1]:
                self._learn(message, each, call)
            answer = yield each
            if recorded is not None and answer is not None and _outcome_of(answer) != recorded:
                raise server.use.halt(
                    CassetteMissed(
                        f"server {server.name!r} got another answer than in its recording: "
                        f"{as_text(recorded)} → {as_text(_outcome_of(answer))}.\n"
                        "Record it again with `simkit record`."
                    )
                )

    def _recorded(
        self, message: Mapping[str, Any]
    ) -> tuple[HttpResponse | None, Callable[[HttpResponse], None]]:
        """Return the recorded answer, if it is to be used, and what takes the real one."""
        server = self._server
        assert server.traffic is not None
        request = mcp.request_for(server.name, message)
        try:
            recorded, take = server.traffic.ask_server(server.name, request, server.use.recorder)
        except CassetteMissed:
            if request not in server.known or message["method"] == "tools/call":
                raise
            return server.known[request], _take_nothing
        if recorded is not None:
            server.known[request] = recorded
        return recorded, take

    def _scripted(self, message: Mapping[str, Any], call: ServedCall) -> JsonValue:
        """Answer a call from `tool_results`."""
        reply = self._server.use.scripted_for_server(call)
        outcome = mcp.ToolOutcome(reply.result, reply.error or "")
        returns = self._server.schemas.get(call.tool)
        result = mcp.call_result(outcome, mcp.ToolDefinition(returns=returns))
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def follow(self, line: bytes) -> Observed:
        """Observe a line of the real server; return the client's next request that waits."""
        message = mcp.decoded(line)
        if not self._open or not isinstance(message, dict):
            return Observed()
        exchange = None if "method" in message else self._open.pop(message.get("id"), None)
        if exchange is None:
            return self._note(message)
        has_session = self.has_session and exchange.message["method"] == "initialize"
        exchange.take(mcp.response_for([*exchange.before, message], has_session=has_session))
        self._learn(exchange.message, message, exchange.call)
        return Observed(nexts=self._next())

    def _note(self, message: dict[str, Any]) -> Observed:
        """Observe what the server says by itself, or asks; return the answer of the scenario."""
        server, exchange = self._server, next(iter(self._open.values()))
        exchange.before.append(message)
        if not mcp.is_request(message):
            return Observed()
        # Over HTTP the client reads it at the same time.
        answer = server.use.questions.answer(server.name, message) if self._process else None
        if answer is not None:
            message["answer"] = answer
            line = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], **answer})
            return Observed(is_for_client=False, nexts=(line,))
        server.use.questions.begin(server.name, message)
        exchange.question = message
        server.questions[self._process, message["id"]] = exchange
        return Observed()

    def _next(self) -> tuple[bytes, ...]:
        """Return the requests that waited and that the real server is to get now."""
        while self._queue and not self._open:
            line = self._queue.popleft()
            if self.reply_to(line) is None:
                return (line,)
        return ()

    def _learn(self, request: Mapping[str, Any], answer: Any, call: ServedCall | None) -> None:
        """Learn the server's tools, and the outcome of a call."""
        self._has_begun = True
        if request["method"] == "tools/list" and isinstance(answer.get("result"), dict):
            for tool in answer["result"].get("tools") or ():
                self._server.use.serve(tool["name"], self._server.name)
                self._server.schemas[tool["name"]] = tool.get("outputSchema")
        if call is not None:
            outcome = mcp.outcome_of(answer)
            self._server.use.end_for_server(call, outcome.result, outcome.error)

    def owe(self, name: str) -> Callable[[object], None]:
        """Let the real server owe what is no answer; return what ends that."""
        self._open[None] = Exchange({"method": name}, _take_nothing)
        return lambda given: self._open.clear()

    def end(self, how: str, last: str) -> bytes:
        """Observe how the real server has ended, and the last lines of its errors."""
        exchanges, self._open = [*self._open.values()], {}
        text = f"{how}{f', and said last: {last}' if last else ''}"
        for exchange in exchanges:
            exchange.take(mcp.response_for_end(text))
            self._fail(exchange.message, exchange.call, text)
        if not exchanges and not self._has_begun:  # Otherwise its client has ended it.
            self._fail({}, None, text)
        requests = (each.message for each in exchanges if "id" in each.message)
        return _lines(mcp.failure(each, f"the server ended: {text}") for each in requests)

    def _fail(self, message: Mapping[str, Any], call: ServedCall | None, text: str) -> None:
        method = message.get("method", "GET")
        where = "at its start" if method in ("GET", "initialize") else f"in {method}"
        where = where if call is None else f"in the call of {call.tool}"
        self._server.ended(f"ended {where}: {text}")
        if call is not None:
            self._server.use.end_for_server(call, None, f"the server ended: {text}")


def _outcome_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer without what names its message."""
    return {key: value for key, value in answer.items() if key in ("result", "error")}


def _take_nothing(answer: HttpResponse) -> None:
    """Take the answer of a real server that nobody records."""


def _lines(messages: Iterable[JsonValue]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in messages)

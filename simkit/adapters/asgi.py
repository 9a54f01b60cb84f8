"""ASGI applications (FastAPI, Starlette, …): each turn is a POST request, without a socket."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from simkit.adapters.entry import found_as
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver, SessionMemory
from simkit.adapters.input_shapes import USER, given_input, input_example, input_template
from simkit.core import errors
from simkit.core.text import guess, short
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App

_ADDRESS: Final = "http://application"
_BODY_MAX: Final = 300
"""The length of an answer in an error."""
_PARAMETERS: Final = ["scope", "receive", "send"]


def is_asgi(subject: Any) -> bool:
    """Return whether an object is an ASGI application, by the names of what it is called with."""
    if inspect.isclass(subject) or not callable(subject):
        return False
    try:
        return [*inspect.signature(subject).parameters] == _PARAMETERS
    except (TypeError, ValueError):
        return False


_PARAMETER: Final = re.compile(r"\{[^}]*\}")


def driver(subject: Any, app: App, adapter_context: AdapterContext) -> AsgiDriver | None:
    """Return the driver for an ASGI application; None for anything else.

    Raise FunctionMissing for one of which nobody says which path takes the user's message.
    """
    if not is_asgi(subject):
        return None
    if app.options.post is None:
        paths = [_PARAMETER.sub("${session}", path) for path in _post_paths(subject)]
        offers = [json.dumps(path) if "$" in path else path for path in paths]
        given = " or ".join(f"`app: {{post: {path}}}`" for path in offers) or "`app: {post: /chat}`"
        raise errors.FunctionMissing(
            f"`{app.entry}` is an ASGI application: which path takes the user's message?\n"
            f"Name it: {given}.",
            app.entry,
        )
    return AsgiDriver(subject, app, adapter_context)


def _client_library() -> Any:
    """Return the library that speaks ASGI; raise Unsupported if there is none.

    Applications have one of both: openai 3 needs httpx2, most others httpx.
    """
    for name in ("httpx", "httpx2"):
        with suppress(ImportError):
            return import_module(name)
    raise errors.Unsupported("`post` needs httpx, which is not installed here: pip install httpx")


class AsgiDriver(FrameworkDriver):
    """Posts each user message to an ASGI application; the answer's body is the reply.

    A session keeps its cookies. The application begins (`lifespan`) before the first message, and
    ends after the last one.
    """

    name = "asgi"
    app_options = ("headers", "input", "output", "post")

    def __init__(self, subject: Any, app: App, adapter_context: AdapterContext) -> None:
        """Raise Unsupported without httpx, which speaks ASGI."""
        httpx = _client_library()
        self._subject, self._app, self._adapter_context = subject, app, adapter_context
        self._lifespan: _Lifespan | None = None
        self._clients = SessionMemory(
            lambda turn: httpx.AsyncClient(
                transport=httpx.ASGITransport(self._answer), base_url=_ADDRESS
            )
        )

    def run_turn(self, turn: UserTurn) -> Any:
        """Post the user's message; return the body: a JSON value, or a text."""
        if turn.resumes:
            raise self._adapter_context.asks_nothing(
                f"which `{self._app.entry}` cannot make: it answers requests."
            )
        return self._adapter_context.gone_on(self._adapter_context.caller.call(self._posted, turn))

    async def _posted(self, turn: UserTurn) -> Any:
        if self._lifespan is None:
            self._lifespan = _Lifespan(self._subject, self._app.entry)
            await self._lifespan.begin()
        options = self._app.options
        path, headers = given_input([str(options.post), options.headers], turn)
        body = self._body(path, turn)
        headers = {name: str(value) for name, value in headers.items()}
        response = await self._clients.of(turn).post(path, json=body, headers=headers)
        if response.is_error:
            raise self._refusal(path, body, response.status_code, response.text)
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind != "application/json" and not kind.endswith("+json"):
            return response.text
        return self._reply_in(response.json())

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request with what the application's beginning left for all of them."""
        assert self._lifespan is not None
        await self._subject({**scope, "state": dict(self._lifespan.state)}, receive, send)

    def _body(self, path: str, turn: UserTurn) -> Any:
        template = self._app.options.input
        if template is None and not isinstance(turn.message, str):
            return turn.message
        fields = _fields_of(self._subject, path)
        return given_input(template or input_template(fields) or {"message": USER}, turn)

    def _reply_in(self, value: Any) -> Any:
        output = self._app.options.output
        if output is None:
            return value
        if ":" in output:
            return found_as(output)(value)
        if isinstance(value, Mapping) and output in value:
            return value[output]
        has = f"has {', '.join(f'`{key}`' for key in value)}" if isinstance(value, Mapping) else ""
        raise errors.ScriptBroken(
            f"the answer has no `{output}`: it {has or f'is {short(repr(value), _BODY_MAX)}'}",
            ("app", "output"),
        )

    def _refusal(self, path: str, body: Any, status: int, text: str) -> errors.SimkitError:
        paths = [*_post_paths(self._subject)]
        if status in (404, 405) and paths and path not in paths:
            advice = guess(path, paths, "Did you mean `{}`?") or f"It has {', '.join(paths)}."
            return errors.ScriptBroken(
                f"`{self._app.entry}` takes no POST to `{path}`.\n{advice}", ("app", "post")
            )
        problem = f"POST {path} was answered with {status}: {short(text, _BODY_MAX)}"
        headers = _headers_of(self._subject, path)
        if status in (401, 403):
            headers = headers or {"authorization"}
        elif status != 422:
            return errors.FunctionFailed(problem)
        advice = f"It was sent {short(json.dumps(body), _BODY_MAX)}."
        if headers := headers - {name.lower() for name in self._app.options.headers}:
            example = ", ".join(f"{name}: …" for name in sorted(headers))
            advice += f" It may want headers: `app: {{headers: {{{example}}}}}`."
        elif status == 422 and (fields := _fields_of(self._subject, path)):
            advice += f" It takes: `app: {{input: {input_example(fields)}}}`."
        return errors.FunctionFailed(f"{problem}\n{advice}")


class _Lifespan:
    """The beginning and the end of an application, as a server tells it of them.

    An application that does not know the protocol raises, and is served without it.
    """

    def __init__(self, subject: Any, entry: str) -> None:
        self._subject, self._entry = subject, entry
        self.state: dict[str, Any] = {}
        self._has_begun = asyncio.Event()
        self._failure: str | None = None
        self._is_asked = False
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait until the application has begun; raise FunctionFailed if it says that it cannot."""
        # It ends where the loop is closed, which cancels it while it waits.
        self._task = asyncio.create_task(self._run())
        await self._has_begun.wait()
        if self._failure is not None:
            raise errors.FunctionFailed(f"`{self._entry}` did not start: {self._failure}")

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self.state}
        try:
            await self._subject(scope, self._receive, self._send)
        except Exception:
            # The specification has a server go on: one that fails says so by a message before.
            pass
        finally:
            self._has_begun.set()

    async def _receive(self) -> dict[str, str]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "lifespan.startup"}
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "lifespan.startup.failed":
            self._failure = str(message.get("message", ""))
        self._has_begun.set()


def _post_paths(subject: Any) -> Iterator[str]:
    """Yield the paths that take POST, as far as the application lists its routes."""
    for route in getattr(subject, "routes", None) or ():
        if "POST" in (getattr(route, "methods", None) or ()):
            yield route.path


def _describes(template: str, path: str) -> bool:
    """Return whether a path is of a template, as `/rooms/7` is of `/rooms/{room}`."""
    parts, values = template.split("/"), path.split("/")
    pairs = zip(parts, values, strict=False)
    return len(parts) == len(values) and all(p == v or p.startswith("{") for p, v in pairs)


def _operation(subject: Any, path: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what an application's OpenAPI document says of a path, and its schemas."""
    describe = getattr(subject, "openapi", None)
    document = describe() if callable(describe) else {}
    paths = document.get("paths", {})
    template = next((name for name in paths if _describes(name, path.partition("?")[0])), "")
    schemas = document.get("components", {}).get("schemas", {})
    return paths.get(template, {}).get("post", {}), schemas


def _headers_of(subject: Any, path: str) -> set[str]:
    """Return the names of the headers that a path requires."""
    parameters = _operation(subject, path)[0].get("parameters", ())
    return {p["name"].lower() for p in parameters if p["in"] == "header" and p.get("required")}


def _fields_of(subject: Any, path: str) -> Mapping[str, Any]:
    """Return the fields that the body of a path requires."""
    operation, schemas = _operation(subject, path)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    schema = schemas.get(schema.get("$ref", "").rpartition("/")[2], schema)
    fields = schema.get("properties", {})
    defs = {"components": {"schemas": schemas}}
    return {key: {**fields[key], **defs} for key in schema.get("required", ()) if key in fields}

"""Entry points: find a pipeline by name, build it for each session, and call it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from asyncio import _get_running_loop
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from simkit.adapters.concurrency.pools import handle_loss
from simkit.capture.http.places import CLIENTS, raised_at
from simkit.core.errors import FunctionMissing, ProgramNamed, SimkitError
from simkit.core.text import exception_text, guess, short
from simkit.runtime.functions import object_named
from simkit.spec.pipeline.agents import listed
from simkit.spec.scenario.code_names import it_has, names_in

METHODS: Final = ("run", "ask", "chat", "send", "invoke", "respond")
"""Names of the method that takes the user's message."""

_SHOWN_MAX: Final = 60
"""The length of a value in an error."""
GRACE_S: Final = 1.0
"""Seconds in which code that cannot continue may end by itself."""
Responder = Callable[..., Any]
"""Takes the user's message and returns the reply, or an awaitable or stream of it."""


def found_as(name: str) -> Any:
    """Return the object that a module has under a name; raise FunctionMissing if there is none."""
    subject = object_named(name)
    if subject is None:
        module, _, attribute = name.partition(":")
        raise FunctionMissing(
            f"`{name}`: module {module!r} has no {attribute!r}{_instead(module, attribute)}", name
        )
    return subject


def _instead(module: str, attribute: str) -> str:
    """Return advice: the name that was probably meant, or the names in a module."""
    module_object = sys.modules[module]
    names_there = [name for name in vars(module_object) if not name.startswith("_")]
    if hint := guess(attribute, names_there, f". Did you mean `{module}:{{}}`?"):
        return hint
    file = getattr(module_object, "__file__", None)
    names = names_in(Path(file)) if file else []
    return f".{it_has(names)}" if names else ""


def build(
    entry: str,
    subject: Any,
    method: str | None,
    session: str,
    built: Any = None,
    call: Callable[[Any], Any] = lambda factory: factory(),
) -> Responder:
    """Return the callable that takes the user's messages of one session.

    For each session, a class is instantiated, and a function without parameters (a factory) is
    called; a function of one parameter is called with each message, and gets its ``session`` if it
    takes one. ``built`` is an object that the factory made already; ``call`` calls a factory. Raise
    FunctionMissing for anything else.
    """
    if is_factory(subject):
        subject = made_by(entry, subject, call) if built is None else built
    responder = method_of(entry, subject, method)
    parameters = _parameters(responder)
    takes_session = any(p.name == "session" and p.kind not in _UNNAMED for p in parameters)
    others = [p for p in parameters if not (takes_session and p.name == "session")]
    _check_taken(entry, responder, others)
    return partial(responder, session=session) if takes_session else responder


def is_factory(subject: Any) -> bool:
    """Return whether an object makes the pipeline: a class, or a function without parameters."""
    return inspect.isclass(subject) or (_is_function(subject) and not _takes_something(subject))


def made_by(entry: str, factory: Any, call: Callable[[Any], Any]) -> Any:
    """Return the pipeline from a factory; raise FunctionMissing if it makes none."""
    needed = _required(_parameters(factory))
    if needed:
        raise FunctionMissing(
            f"`{entry}` is a class that cannot be instantiated without {listed(needed)}.\nWrite a "
            "function that does it, `def make(): return "
            f"{entry.partition(':')[2]}(…)`, and name that: `{entry.partition(':')[0]}:make`.",
            entry,
        )
    try:
        result = call(factory)
    except SimkitError:
        raise
    except (Exception, SystemExit) as problem:
        where = raised_at(problem, home_of(entry))
        raise FunctionMissing(
            f"`{entry}` takes no parameter, so it was called to make the pipeline, and raised "
            f"{exception_text(problem)}{' at ' if where else ''}{where}."
            f"{'' if inspect.isclass(factory) else _INSTEAD}",
            entry,
        ) from problem
    if result is None or isinstance(result, _VALUES):
        subject_text = (
            "nothing"
            if result is None
            else f"{short(repr(result), _SHOWN_MAX)}, a `{type(result).__name__}`"
        )
        raise FunctionMissing(
            f"`{entry}` takes no parameter, so it must return the pipeline: a function of the "
            f"user's message, or an object. It returned {subject_text}.{_INSTEAD}",
            entry,
        )
    return result


_INSTEAD: Final = (
    "\nIf it is a program, which reads the user's messages by `input()` or none, run it as it is: "
    "`app: {input: turns}`. Else name a function that takes one message and returns the reply, "
    "`def answer(text): …`."
)
"""Advice if a function without parameters is a program, not a factory."""


def reads_itself(entry: str) -> ProgramNamed:
    """Return the error about code that asks for messages while it is imported or built."""
    module = entry.partition(":")[0]
    return ProgramNamed(
        f"`{entry}` is a program: it reads the user's messages itself, by `input()` or from stdin."
        "\nRun it as it is: `app: {input: turns}` types each turn's text in, and what is printed "
        "is the reply. If the loop is in the module itself, name the module alone: "
        f"`pipeline: {module}`.",
        entry,
    )


def check_called_alone(entry: str, start: Callable[..., Any]) -> None:
    """Raise FunctionMissing for a program's function that needs arguments."""
    needed = _required(_parameters(start))
    if needed:
        raise FunctionMissing(
            f"`{entry}` needs {listed(needed)}, and a program (`app: {{input: turns}}`) is called "
            "without arguments.\n"
            "Name the function that starts it, or its module alone, which runs as `python -m` "
            "does. A function of the user's message needs no `input: turns`.",
            entry,
        )


def home_of(entry: str) -> str:
    """Return the top-level package of ``module:function``."""
    return entry.partition(":")[0].partition(".")[0]


def _check_taken(entry: str, responder: Responder, parameters: list[inspect.Parameter]) -> None:
    """Raise FunctionMissing if a callable does not take the user's message alone."""
    places = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    needed = _required([p for p in parameters if p is not next(iter(places), None)])
    name = getattr(responder, "__name__", "")
    called = f"`{entry}`" if entry.endswith(f":{name}") or not name else f"`{name}` of `{entry}`"
    if needed or (parameters and not places):
        lacking = f"needs {listed(needed)} as well" if places else "takes no argument by its place"
        raise FunctionMissing(
            f"{called} is called with the user's message alone, and {lacking}.\n"
            "Name a function that takes the message and adds the rest: `def run(text): …`.",
            entry,
        )
    if not parameters and (inspect.isfunction(responder) or inspect.ismethod(responder)):
        raise FunctionMissing(
            f"{called} takes no argument, and is to be called with the user's message.\n"
            "Name a function or method that takes it: `def answer(text): …`.",
            entry,
        )


def method_of(entry: str, subject: Any, method: str | None) -> Responder:
    """Return what is called of a pipeline's object; raise FunctionMissing where that is not
    plain."""
    if method is None and callable(subject):
        return subject  # type: ignore[no-any-return]
    public = _public_methods(type(subject))
    subject_text = f"an object of class `{type(subject).__name__}`"
    if method is not None:
        responder = getattr(subject, method, None)
        if callable(responder):
            return responder  # type: ignore[no-any-return]
        hint = f" It has: {', '.join(public)}." if public else ""
        raise FunctionMissing(
            f"`{entry}` is or makes {subject_text}, which has no method {method!r} "
            f"(`app.call`).{hint}",
            entry,
        )
    usual = [name for name in METHODS if callable(getattr(subject, name, None))]
    candidates = [] if isinstance(subject, _VALUES) else usual or public
    if not candidates:
        raise FunctionMissing(
            f"`{entry}` is {subject_text}, not a function of the user's message, nor an object "
            "with such a method.\nName one that takes the message: `def answer(text): …`.",
            entry,
        )
    only = next((names for names in (usual, public) if len(names) == 1), None)
    if only is not None:
        return getattr(subject, only[0])  # type: ignore[no-any-return]
    name = _likeliest(subject, candidates)
    raise FunctionMissing(
        f"`{entry}` is or makes {subject_text}, and it is not clear which method takes the "
        f"user's message: {', '.join(candidates)}.\nName it: `app: {{call: {name}}}`, or "
        f"`{entry}.{name}` for `init` and `explore`.",
        entry,
    )


def _public_methods(kind: type) -> list[str]:
    return [
        name
        for name in dir(kind)
        if not name.startswith("_") and inspect.isroutine(getattr(kind, name, None))
    ]


def _likeliest(subject: Any, methods: list[str]) -> str:
    """Return the first method that takes one message, else the first."""
    return next(
        (method for method in methods if _takes_something(getattr(subject, method))), methods[0]
    )


_VALUES: Final = (str, bytes, int, float, list, tuple, dict, set, frozenset)
_UNNAMED: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


def _is_function(subject: Any) -> bool:
    return inspect.isroutine(subject) or isinstance(subject, partial)


def _takes_something(function: Any) -> bool:
    parameters = _parameters(function)
    return bool(_required(parameters)) or any(
        p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters
    )


def _required(parameters: Iterable[inspect.Parameter]) -> list[str]:
    return [
        p.name
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []  # Some callables written in C have no signature.


class Caller:
    """Runs user code to its end: sync, async or streaming; with one event loop for a scenario."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._working: asyncio.Task[Any] | None = None
        """The current task in the event loop; None if there is none."""
        self._others: list[Caller] = []

    def caller_for_thread(self) -> Caller:
        """Return a caller for another thread, which gives up when this one does."""
        other = Caller()
        self._others.append(other)
        return other

    def give_up(self) -> None:
        """Cancel asynchronous code that does not end by itself soon; from any thread.

        Frameworks that run agents in tasks may wait for ever for one that was stopped.
        """
        for other in self._others:
            other.give_up()
        working = self._working
        if working is not None:
            loop = working.get_loop()
            with suppress(RuntimeError):  # It has ended meanwhile, and its loop with it.
                loop.call_soon_threadsafe(lambda: loop.call_later(GRACE_S, working.cancel))

    def cancels(self) -> Callable[[], None] | None:
        """Return the function that cancels the task that runs the code; None if there is none.

        Any thread may call it.
        """
        working = self._working
        if working is None:
            return None

        def cancel() -> None:
            working.get_loop().call_soon_threadsafe(working.cancel)

        return cancel

    def call(self, responder: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a call; texts of a stream are joined."""
        result = responder(*args)
        if inspect.isgenerator(result):
            return _joined(list(result))
        if inspect.isasyncgen(result):
            return self._run(_collected(result))
        if inspect.isawaitable(result):
            return self._run(_awaited(result))
        return result

    def _run(self, work: Any) -> Any:
        if self._runner is None:
            self._runner = asyncio.Runner()
            loop = self._runner.get_loop()
            loop.set_default_executor(_ClientsAtOnce())
            loop.set_exception_handler(handle_loss)
        run = partial(self._runner.run, self._watched(work), context=contextvars.copy_context())
        # Not by an exception: it would stand in the traceback of what the code raises.
        if _get_running_loop() is None:
            return run()
        # The caller is inside an event loop: a test that is a coroutine.
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1)
        return self._pool.submit(contextvars.copy_context().run, run).result()

    async def _watched(self, work: Awaitable[Any]) -> Any:
        before, self._working = self._working, asyncio.current_task()
        try:
            return await work
        finally:
            self._working = before

    def close(self) -> None:
        """Close the event loop, and cancel its tasks."""
        try:
            if self._runner is not None:
                loop = self._runner.get_loop()
                if self._pool is not None:
                    self._pool.submit(self._runner.close).result()
                else:
                    self._runner.close()
                # A task that code keeps may be freed when Python ends, and has emptied modules.
                loop.set_exception_handler(None)
        finally:
            self._runner = None
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


class _ClientsAtOnce(ThreadPoolExecutor):
    """A pool that runs at once what a provider's client would do in a thread.

    Asynchronous clients look up the platform in a thread before their first request. Two first
    calls that begin together would be sent in the order in which their threads end.
    """

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not _is_a_clients(work):
            return super().submit(work, *args, **kwargs)
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **kwargs))
        except Exception as problem:
            done.set_exception(problem)
        return done


def _is_a_clients(work: Any) -> bool:
    # asyncio.to_thread wraps its function in a call of `Context.run`.
    while isinstance(work, partial):
        work = work.args[0] if work.args and inspect.isbuiltin(work.func) else work.func
    return (getattr(work, "__module__", None) or "").partition(".")[0] in CLIENTS


async def _awaited(awaitable: Any) -> Any:
    result = await awaitable
    return await _collected(result) if inspect.isasyncgen(result) else result


async def _collected(stream: Any) -> Any:
    return _joined([item async for item in stream])


def _joined(items: list[Any]) -> Any:
    return "".join(items) if all(isinstance(item, str) for item in items) else items

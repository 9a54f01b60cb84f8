"""Toolbox: replacements of a pipeline's own tool functions during a scenario.

A tool is identified by its function (``app.tools``). The function's code is exchanged, not its
name: so every holder, a registry or an import by name, calls the stand-in. The code is shared by
the process: the context decides which scenario answers a call.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from simkit.capture.http.request_router import Pauses
from simkit.core.context_values import LOCK, Inside
from simkit.core.errors import CallUnattributed, FunctionMissing
from simkit.core.stopping import halting
from simkit.runtime.tool_use import returned_by

_HOLDERS: Final = ("func", "coroutine", "fn", "function", "entrypoint", "forward")
"""Attributes in which framework tools keep their function."""


class Toolbox:
    """The tools of one scenario: their functions, and the stand-in."""

    def __init__(
        self,
        functions: Mapping[str, Any],
        stand_in: Callable[..., Any],
        waits_as: Callable[[str], Pauses | None] = lambda tool: None,
    ) -> None:
        """Raise FunctionMissing for anything but a Python function.

        ``stand_in`` answers a call: it gets the tool, its arguments by name, a function for the
        real call, the return annotation (``returns``), and ``in_loop``: only then, in a task, it
        may return an awaitable although the function has none. ``waits_as`` returns the way in
        which a call of a tool waits until it is chosen; None if it is answered at once.
        """
        self.stand_in, self.waits_as = stand_in, waits_as
        self._exchanged: list[FunctionType] = []
        self.tools = {plain_function(tool, function): tool for tool, function in functions.items()}

    @contextmanager
    def standing_by(self) -> Iterator[None]:
        """Exchange the functions' code; calls are answered only in contexts of `at_work`."""
        try:
            for function in self.tools:
                self._exchange(function)
            yield
        finally:
            for function in self._exchanged:
                _put_back(function)

    def add(self, tool: str, function: FunctionType) -> None:
        """Add one more function, at once if the code is exchanged already."""
        self.tools[function] = tool
        self._exchange(function)

    def _exchange(self, function: FunctionType) -> None:
        _exchange(function)
        self._exchanged.append(function)

    def at_work(self) -> Inside[Toolbox]:
        """Answer the calls of this context, and of code that it starts."""
        return Inside(_current, self, _working)


def toolbox_at_work() -> Toolbox | None:
    """Return the toolbox of this context's scenario; None if there is none."""
    return _current.get()


def plain_function(tool: str, function: Any) -> FunctionType:
    """Return the Python function behind a method, a decorator's wrapper, a partial or a tool.

    Raise FunctionMissing if there is none.
    """
    inner = function
    while inner is not None:
        function = inner
        inner = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if inner is None and not isinstance(function, FunctionType):
            inner = _held_by(function)
    if isinstance(function, FunctionType):
        return function
    raise FunctionMissing(
        f"tool `{tool}` is a {type(function).__name__}, which simkit cannot replace. Name a "
        "Python function under `app.tools`. A tool of a framework that has an adapter needs no "
        "entry there: `tool_results` answers it by its name.",
        tool,
    )


def _held_by(function: Any) -> Any:
    """Return the function that a partial or a framework's tool holds, or None."""
    if isinstance(function, partial):
        return function.func
    candidates = (getattr(function, name, None) for name in _HOLDERS)
    return next(
        (
            candidate
            for candidate in candidates
            if isinstance(candidate, (FunctionType, MethodType))
        ),
        None,
    )


class _Exchanged:
    """A function with exchanged code, and the number of scenarios that need it."""

    __slots__ = ("first", "had_signature", "real", "scenarios", "signature")

    def __init__(self, function: FunctionType) -> None:
        self.signature = inspect.signature(function)
        self.first = next(iter(self.signature.parameters), "")
        self.had_signature = "__signature__" in vars(function)
        self.real = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.real.__kwdefaults__ = function.__kwdefaults__
        self.scenarios = 0

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name; raise TypeError if they do not fit."""
        bound = self.signature.bind(*args, **kwargs)
        named = dict(bound.arguments)
        if self.first in ("self", "cls"):
            del named[self.first]
        for name, parameter in self.signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                named.update(named.pop(name, {}))
        return named


_numbered: Final[dict[int, tuple[FunctionType, _Exchanged]]] = {}
"""Functions with exchanged code, by identity."""
_working: Final[list[Toolbox]] = []
_current: Final = contextvars.ContextVar[Toolbox | None]("simkit_toolbox", default=None)
_lock: Final = threading.RLock()


def _exchange(function: FunctionType) -> None:
    with _lock:
        if id(function) not in _numbered:
            exchanged = _Exchanged(function)
            _numbered[id(function)] = function, exchanged
            if not exchanged.had_signature:
                # Frameworks make a tool's schema from its signature, also during the exchange.
                function.__signature__ = exchanged.signature  # type: ignore[attr-defined]
            function.__code__ = _jump(function)
        _numbered[id(function)][1].scenarios += 1


def _put_back(function: FunctionType) -> None:
    with _lock:
        _, toolbox = _numbered[id(function)]
        toolbox.scenarios -= 1
        if toolbox.scenarios:
            return
        del _numbered[id(function)]
        function.__code__ = toolbox.real.__code__
        if not toolbox.had_signature:
            del function.__signature__  # type: ignore[attr-defined]


_JUMPS: Final = (
    (
        inspect.iscoroutinefunction,
        "async def jump(*args, **kwargs):\n"
        "    from simkit.adapters.toolbox import jumped_async\n"
        "    return await jumped_async({number}, args, kwargs)\n",
    ),
    (
        inspect.isasyncgenfunction,
        "async def jump(*args, **kwargs):\n"
        "    from simkit.adapters.toolbox import jumped_async_stream\n"
        "    async for item in jumped_async_stream({number}, args, kwargs):\n"
        "        yield item\n",
    ),
    (
        inspect.isgeneratorfunction,
        "def jump(*args, **kwargs):\n"
        "    from simkit.adapters.toolbox import jumped_stream\n"
        "    yield from jumped_stream({number}, args, kwargs)\n",
    ),
    (
        callable,
        "def jump(*args, **kwargs):\n"
        "    from simkit.adapters.toolbox import jumped\n"
        "    return jumped({number}, args, kwargs)\n",
    ),
)
"""Kind of function to the source of its replacement."""


def _jump(function: FunctionType) -> CodeType:
    """Return code that calls the stand-in of one function, for a function of the same kind."""
    source = next(source for is_it, source in _JUMPS if is_it(function))
    replacements: dict[str, Any] = {}
    exec(compile(source.format(number=id(function)), "<simkit>", "exec"), replacements)
    code: CodeType = replacements["jump"].__code__
    # A function's code and its closure must have equally many variables.
    return code.replace(co_freevars=function.__code__.co_freevars)


def _answering(function: FunctionType) -> Toolbox | None:
    """Return the toolbox that answers a call here; None for the real function.

    Raise RunHalted if several might, in a thread that belongs to none of them.
    """
    mine = _current.get()
    with LOCK:
        working = list(_working)
    if mine in working:
        return mine if mine is not None and function in mine.tools else None
    toolboxes = [toolbox for toolbox in working if function in toolbox.tools]
    if len(toolboxes) > 1:
        raise halting(
            CallUnattributed(
                f"{function.__qualname__} was called in a thread that belongs to none of the "
                f"{len(toolboxes)} scenarios that run now.\nStart the thread inside the run, or "
                "give it the context: `contextvars.copy_context().run(...)`."
            )
        )
    return toolboxes[0] if toolboxes else None


def jumped(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer in place of a function; a call that waits for its turn blocks its thread."""
    waits = _waits_of(number)
    if waits is not None:
        waits.sleep(0.0)
    return _jumped(number, args, kwargs, in_loop=False)


def _waits_of(number: int) -> Pauses | None:
    """Return the way in which a call of a function waits until it is chosen, if it does."""
    function, _ = _by_number(number)
    toolbox = _answering(function)
    return toolbox.waits_as(toolbox.tools[function]) if toolbox is not None else None


def _jumped(number: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, in_loop: bool) -> Any:
    function, exchanged = _by_number(number)
    toolbox = _answering(function)
    if toolbox is None:
        return exchanged.real(*args, **kwargs)
    named = None
    with suppress(TypeError):
        named = exchanged.arguments(args, kwargs)
    if named is None:
        # The function itself reports the wrong arguments; no error stands before its own.
        return exchanged.real(*args, **kwargs)
    return toolbox.stand_in(
        toolbox.tools[function],
        named,
        lambda: exchanged.real(*args, **kwargs),
        returns=returned_by(function),
        in_loop=in_loop,
    )


async def jumped_async(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer in place of a coroutine function; a call that waits for its turn blocks its task."""
    waits = _waits_of(number)
    if waits is not None:
        await waits.sleep_in_loop(0.0)
    result = _jumped(number, args, kwargs, in_loop=True)
    return await result if inspect.isawaitable(result) else result


def jumped_stream(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Answer in place of a generator function; a result that is no list is its one item."""
    result = jumped(number, args, kwargs)
    yield from result if isinstance(result, list | Iterator) else (result,)


async def jumped_async_stream(
    number: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> AsyncIterator[Any]:
    """Answer in place of an asynchronous generator function."""
    result = jumped(number, args, kwargs)
    if isinstance(result, AsyncIterator):
        async for item in result:
            yield item
        return
    for item in result if isinstance(result, list) else (result,):
        yield item


def _by_number(number: int) -> tuple[FunctionType, _Exchanged]:
    with _lock:
        return _numbered[number]

"""The user's own functions, named ``module:function``: found, called, and what they raise."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

from simkit.errors import FunctionFailed, FunctionMissing
from simkit.transports.guards import guarded


@lru_cache(maxsize=256)
def function_named(name: str) -> Callable[..., Any]:
    """Returns the function; raises FunctionMissing naming what cannot be found.

    The working directory can be imported from, as with ``python -m``.
    """
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        raise FunctionMissing(
            f"function `{name}`: there is no module {problem.name!r}. "
            "It is looked for in the working directory and on sys.path.",
            name,
        ) from None
    except Exception as problem:
        raise FunctionMissing(
            f"function `{name}`: importing {module_name!r} failed: "
            f"{type(problem).__name__}: {problem}",
            name,
        ) from None
    found = getattr(module, attribute, None)
    if not callable(found):
        raise FunctionMissing(
            f"function `{name}`: module {module_name!r} has no function {attribute!r}", name
        )
    function: Callable[..., Any] = found
    return function


class UserFunctions:
    """The user's functions of one run: found by name, called under guard.

    ``report`` is told of every effect that simkit does not control, and where it was asked for;
    ``caller`` is the agent at work.
    """

    def __init__(self) -> None:
        self.report: Callable[[str, str], None] | None = None
        self.caller = ""
        self.were_called = False
        """What their modules keep may have changed."""

    def named(self, name: str) -> Callable[..., Any]:
        """Returns the function, guarded; raises FunctionMissing naming what cannot be found."""
        function = function_named(name)

        @wraps(function, updated=())
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.were_called = True
            # Bound first: a function's own argument may be called `name` or `report`.
            return called(name, partial(function, *args, **kwargs), report=self.report)

        return guarded


def called(
    name: str,
    function: Callable[..., Any],
    *args: Any,
    report: Callable[[str, str], None] | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a user's function, sync or async; raises FunctionFailed with what it raised.

    ``report`` gets each uncontrolled effect and where it was caused, as the fields of
    UncontrolledEffect; with it, the network is refused.
    """

    def guard() -> AbstractContextManager[None]:
        return guarded(report, home=re.split("[.:]", name)[0]) if report else nullcontext()

    async def awaited(awaitable: Awaitable[Any]) -> Any:
        # Inside the event loop: what the loop itself needs is not the function's doing.
        with guard():
            return await awaitable

    try:
        with guard():
            result = function(*args, **kwargs)
        if inspect.isawaitable(result):
            result = _finished(awaited(result))
    except Exception as problem:
        raise FunctionFailed(f"`{name}` raised {type(problem).__name__}: {problem}") from problem
    return result


def _finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end, also where the caller is inside an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    here = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(here.run, asyncio.run, work).result()

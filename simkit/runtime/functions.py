"""User functions, named ``module:function``: import, call, and their exceptions."""

from __future__ import annotations

import contextvars
import importlib
import inspect
import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, partial, wraps
from typing import Any

from simkit.core.errors import DirectoryGone, FunctionFailed, FunctionMissing, Unsupported
from simkit.core.gc_pause import collected_meanwhile
from simkit.core.messages import JsonValue
from simkit.core.requirements import distribution_of
from simkit.core.text import exception_text


@lru_cache(maxsize=256)
def function_named(name: str) -> Callable[..., Any]:
    """Return the function; raise FunctionMissing with the part that cannot be found."""
    named_object = object_named(name)
    if not callable(named_object):
        module_name, _, attribute = name.partition(":")
        raise FunctionMissing(
            f"function `{name}`: module {module_name!r} has no function {attribute!r}", name
        )
    function: Callable[..., Any] = named_object
    return function


def schema_of(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Return a schema with ``{$ref: Name}`` and ``module:Model`` resolved."""
    if isinstance(schema, dict) and set(schema) == {"$ref"}:
        return named.get(schema["$ref"], schema)
    if isinstance(schema, str):
        model = function_named(schema)
        describe = getattr(model, "model_json_schema", None)
        if describe is None:
            raise Unsupported(f"`{schema}` is no pydantic model")
        return describe()
    return schema


def object_named(name: str) -> Any:
    """Return the object under a name of a module, or None; raise FunctionMissing for no module.

    The name may be that of a class's method, ``module:Class.method``. Modules may be in the working
    directory, as with ``python -m``.
    """
    module_name, _, attribute = name.partition(":")
    loaded = sys.modules.get(module_name)
    if loaded is not None and not getattr(loaded.__spec__, "_initializing", True):
        return _member(loaded, attribute)
    # Most pipelines that are declared name no function.
    from simkit.core.determinism.installing import imported_here

    work_folder_on_path()
    try:
        with collected_meanwhile, imported_here(module_name):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        missing = problem.name or ""
        if f"{module_name}.".startswith(f"{missing}."):
            raise FunctionMissing(
                f"function `{name}`: there is no module {missing!r}. "
                "It is looked for in the working directory and on sys.path.",
                name,
            ) from None
        raise FunctionMissing(_import_failed(name, problem), name) from problem
    except (Exception, SystemExit) as problem:
        raise FunctionMissing(_import_failed(name, problem), name) from None
    return _member(module, attribute)


def _member(module: Any, path: str) -> Any:
    """Return what a module has under a name, or under a name of what it has; None if nothing."""
    member = module
    for name in path.split("."):
        member = getattr(member, name, None)
    return member


def work_folder_on_path() -> None:
    """Let modules be imported from the working directory; raise DirectoryGone if it is gone."""
    try:
        folder = os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_failed(name: str, problem: BaseException) -> str:
    module = name.partition(":")[0]
    problem_text = exception_text(problem)
    from simkit.capture.http.places import raised_at

    where = raised_at(problem, module.partition(".")[0])
    at = f" at {where}" if where else ""
    text = f"function `{name}`: importing {module!r} failed{at}: {problem_text}"
    return text + _import_advice(problem)


def _import_advice(problem: BaseException) -> str:
    """Describe what to do if a program's module fails to import."""
    if isinstance(problem, ModuleNotFoundError):
        distribution = distribution_of(problem.name or "")
        return (
            f"\nInstall {distribution!r} into this environment, or name the folder that it is in: "
            "`app: {path: [..]}`."
        )
    if isinstance(problem, KeyError) and problem.args and _read_from_environment(problem):
        return f"\nSet it for the scenario: `app: {{env: {{{problem.args[0]}: …}}}}`."
    if isinstance(problem, SystemExit):
        return '\nWhat a module does as a program belongs under `if __name__ == "__main__":`.'
    return ""


def _read_from_environment(problem: BaseException) -> bool:
    step = problem.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code is type(os.environ).__getitem__.__code__


class UserFunctions:
    """The user's functions of one run, called under guard.

    ``report`` gets every effect that simkit does not control, and its place; ``caller`` is the
    running agent; ``at_work`` returns what gives them time and random numbers.
    """

    def __init__(self) -> None:
        self.report: Callable[[str, str], None] | None = None
        self.at_work: Callable[[], AbstractContextManager[None]] = nullcontext
        self.are_named = False
        """Whether the pipeline has any."""
        self.caller = ""
        self.were_called = False
        """Whether any was called, so that state of their modules may have changed."""

    def named(self, name: str) -> Callable[..., Any]:
        """Return the function, guarded; raise FunctionMissing with the missing part."""
        function = function_named(name)
        self.are_named = True

        @wraps(function, updated=())
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.were_called = True
            with self.at_work():
                # Bound first: a function's own parameter may be called `name` or `report`.
                return call_function(name, partial(function, *args, **kwargs), report=self.report)

        return guarded


def call_function(
    name: str,
    function: Callable[..., Any],
    *args: Any,
    report: Callable[[str, str], None] | None = None,
    **kwargs: Any,
) -> Any:
    """Call a user's function, sync or async; raise FunctionFailed if it raises.

    ``report`` gets each uncontrolled effect and its place, as the fields of UncontrolledEffect; if
    it is given, the network is refused.
    """

    def guard() -> AbstractContextManager[None]:
        if report is None:
            return nullcontext()
        from simkit.capture.http.guards import Guard

        return Guard(report, home=re.split("[.:]", name)[0])

    async def awaited(awaitable: Awaitable[Any]) -> Any:
        # Inside the event loop: the function is not responsible for the loop's own effects.
        with guard():
            return await awaitable

    try:
        with collected_meanwhile:
            with guard():
                result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = _run_coroutine(awaited(result))
    except (Exception, SystemExit) as problem:
        # A function that ends its program must not end simkit, perhaps with the code of a pass.
        raise FunctionFailed(f"`{name}` raised {exception_text(problem)}") from problem
    return result


def _run_coroutine(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, also if the caller is inside an event loop already."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    # Not by an exception: it would stand in the traceback of what the coroutine raises.
    if asyncio._get_running_loop() is None:
        return asyncio.run(work)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, work).result()


def same(root: Mapping[str, Any]) -> Any:
    """Return the input, for a node that only passes it on: ``function: simkit:same``.

    >>> simkit.same({"input": "Where is order 7?"})
    'Where is order 7?'
    """
    return root["input"]

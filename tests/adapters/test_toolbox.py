"""A tool's function is stood in for wherever it is held, and only for who is at work."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from simkit.adapters.toolbox import Toolbox
from simkit.core.errors import CallUnattributed, FunctionMissing, RunHalted

response = list[tuple[str, dict[str, Any]]]


class Answers:
    """A stand-in that answers all alike, and remembers what was called."""

    def __init__(self, result: Any = "scripted") -> None:
        self.result, self.tool_calls = result, response()

    def __call__(
        self,
        tool: str,
        args: Mapping[str, Any],
        real: Callable[[], Any],
        *,
        returns: Any,
        in_loop: bool,
    ) -> Any:
        self.tool_calls.append((tool, dict(args)))
        return self.result


def through(
    tool: str, args: Mapping[str, Any], real: Callable[[], Any], *, returns: Any, in_loop: bool
) -> Any:
    """A stand-in that lets everything through."""
    return real()


def answered(
    function: Any, call: Callable[[], Any], result: Any = "scripted"
) -> tuple[Any, response]:
    """Returns what a call returns while the function is stood in for, and what was heard."""
    answers = Answers(result)
    toolbox = Toolbox({"look": function}, answers)
    with toolbox.standing_by(), toolbox.at_work():
        return call(), answers.tool_calls


def plain(city: str, days: int = 1, *, unit: str = "C") -> str:
    """Looks."""
    return f"real {city} {days} {unit}"


async def coroutine(city: str) -> str:
    return f"real {city}"


def generator(city: str) -> Iterator[str]:
    yield "real"
    yield city


async def async_generator(city: str) -> AsyncIterator[str]:
    yield "real"
    yield city


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return f"<{function(*args, **kwargs)}>"

    return wrapper


@logged
def decorated(city: str) -> str:
    return f"real {city}"


def closure() -> Callable[[str], str]:
    greeting, ending = "hello", "!"
    return lambda city: f"{greeting} {city}{ending}"


class Desk:
    """Has tools of all kinds."""

    def method(self, city: str) -> str:
        return f"real {city}"

    @staticmethod
    def static(city: str) -> str:
        return f"real {city}"

    @classmethod
    def of_class(cls, city: str) -> str:
        return f"real {city}"


CLOSED = closure()
DATA = {"by name": plain}


@pytest.mark.parametrize(
    ("function", "call", "result", "args"),
    [
        (plain, lambda: plain("Bern"), "scripted", {"city": "Bern"}),
        (plain, lambda: DATA["by name"]("Bern", 2), "scripted", {"city": "Bern", "days": 2}),
        (plain, lambda: plain(unit="F", city="B"), "scripted", {"city": "B", "unit": "F"}),
        (CLOSED, lambda: CLOSED("Bern"), "scripted", {"city": "Bern"}),
        (decorated, lambda: decorated("Bern"), "<scripted>", {"city": "Bern"}),
        (Desk.method, lambda: Desk().method("Bern"), "scripted", {"city": "Bern"}),
        (Desk().method, lambda: Desk().method("Bern"), "scripted", {"city": "Bern"}),
        (Desk.static, lambda: Desk.static("Bern"), "scripted", {"city": "Bern"}),
        (Desk.of_class, lambda: Desk.of_class("Bern"), "scripted", {"city": "Bern"}),
        (functools.partial(plain, "Bern"), lambda: plain("Bern"), "scripted", {"city": "Bern"}),
    ],
    ids=[
        "function", "held in a registry", "keyword only", "closure", "decorator's wrapper",
        "method", "bound method", "static method", "class method", "partial",
    ],
)  # fmt: skip
def test_every_kind_of_function_is_answered_with_its_arguments_by_name(
    function: Any, call: Callable[[], Any], result: Any, args: dict[str, Any]
) -> None:
    assert answered(function, call) == (result, [("look", args)])


def test_a_coroutine_function_stays_one_and_is_answered() -> None:
    def call() -> Any:
        assert inspect.iscoroutinefunction(coroutine)
        return asyncio.run(coroutine("Bern"))

    assert answered(coroutine, call) == ("scripted", [("look", {"city": "Bern"})])


@pytest.mark.parametrize(("result", "items"), [(["a", "b"], ["a", "b"]), ("a", ["a"])])
def test_a_generator_function_stays_one_and_yields_the_items(result: Any, items: Any) -> None:
    def call() -> Any:
        assert inspect.isgeneratorfunction(generator)
        return list(generator("Bern"))

    assert answered(generator, call, result) == (items, [("look", {"city": "Bern"})])


@pytest.mark.parametrize(("result", "items"), [(["a", "b"], ["a", "b"]), ("a", ["a"])])
def test_an_async_generator_function_stays_one(result: Any, items: Any) -> None:
    async def collected() -> list[Any]:
        assert inspect.isasyncgenfunction(async_generator)
        return [item async for item in async_generator("Bern")]

    def call() -> Any:
        return asyncio.run(collected())

    assert answered(async_generator, call, result) == (items, [("look", {"city": "Bern"})])


@pytest.mark.parametrize(
    ("function", "call", "result"),
    [
        (plain, lambda: plain("Bern", unit="F"), "real Bern 1 F"),
        (CLOSED, lambda: CLOSED("Bern"), "hello Bern!"),
        (coroutine, lambda: asyncio.run(coroutine("Bern")), "real Bern"),
        (generator, lambda: list(generator("Bern")), ["real", "Bern"]),
        (Desk.method, lambda: Desk().method("Bern"), "real Bern"),
        (Desk.of_class, lambda: Desk.of_class("Bern"), "real Bern"),
    ],
    ids=["function", "closure", "coroutine", "generator", "method", "class method"],
)
def test_what_the_scenario_does_not_answer_runs_as_it_is(
    function: Any, call: Callable[[], Any], result: Any
) -> None:
    toolbox = Toolbox({"look": function}, through)

    with toolbox.standing_by(), toolbox.at_work():
        results = call()

    assert results == result


def test_a_framework_sees_the_signature_and_the_documentation_all_the_while() -> None:
    before = inspect.signature(plain)
    toolbox = Toolbox({"look": plain}, through)

    with toolbox.standing_by():
        assert inspect.signature(plain) == before
        assert (plain.__name__, plain.__doc__, plain.__annotations__["days"]) == (
            "plain", "Looks.", "int",
        )  # fmt: skip
    assert inspect.signature(plain) == before
    assert "__signature__" not in vars(plain)


def test_arguments_that_do_not_fit_are_the_functions_own_error() -> None:
    answers = Answers()
    toolbox = Toolbox({"look": plain}, answers)

    with (
        toolbox.standing_by(),
        toolbox.at_work(),
        pytest.raises(TypeError, match=r"^plain\(\) got an unexpected keyword argument 'town'$"),
    ):
        plain(town="Bern")  # type: ignore[call-arg]

    assert answers.tool_calls == []


def test_any_further_arguments_are_named_too() -> None:
    def free(*places: str, **more: int) -> None:
        raise AssertionError

    pair = answered(free, lambda: free("a", "b", days=2))

    assert pair == ("scripted", [("look", {"places": ("a", "b"), "days": 2})])


@pytest.mark.parametrize("problem", [len, None, object(), "plain"])
def test_what_is_no_python_function_is_an_error_that_names_the_tool(problem: Any) -> None:
    with pytest.raises(FunctionMissing) as caught:
        Toolbox({"look": problem}, through)

    assert caught.value.what == (
        f"tool `look` is a {type(problem).__name__}, which simkit cannot replace. "
        "Name a Python function under `app.tools`. A tool of a framework that has an adapter needs "
        "no entry there: `tool_results` answers it by its name."
    )


class Decorated:
    """A tool as frameworks' decorators make it: an object that holds the function."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = "look"
        setattr(self, name, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


@pytest.mark.parametrize("name", ["func", "coroutine", "fn", "function", "entrypoint", "forward"])
def test_a_function_that_a_decorator_made_a_tool_of_is_stood_in_for(name: str) -> None:
    tool = Decorated(name, functools.wraps(plain)(lambda *args, **kwargs: plain(*args, **kwargs)))

    pair = answered(tool, lambda: tool("Bern", unit="F"))

    assert pair == ("scripted", [("look", {"city": "Bern", "unit": "F"})])


def test_an_object_that_holds_a_name_where_tools_hold_a_function_is_none() -> None:
    with pytest.raises(FunctionMissing, match="is a Decorated"):
        Toolbox({"look": Decorated("function", "plain")}, through)  # type: ignore[arg-type]


def test_nobody_is_answered_where_no_scenario_is_at_work() -> None:
    toolbox = Toolbox({"look": plain}, Answers())

    with toolbox.standing_by():
        assert plain("Bern") == "real Bern 1 C"


def test_each_scenario_answers_its_own_calls_also_of_one_function() -> None:
    answers, two, other = Answers("one"), Answers("two"), Toolbox({}, Answers("other"))
    first, second = Toolbox({"look": plain}, answers), Toolbox({"see": plain}, two)

    with first.standing_by(), first.at_work():
        with second.standing_by(), second.at_work():
            assert plain("Bern") == "two"
        assert plain("Basel") == "one"
        with other.standing_by(), other.at_work():
            assert plain("Chur") == "real Chur 1 C"

    assert (answers.tool_calls, two.tool_calls) == (
        [("look", {"city": "Basel"})],
        [("see", {"city": "Bern"})],
    )


def test_the_code_is_put_back_when_the_last_one_leaves() -> None:
    code = plain.__code__
    first, second = Toolbox({"look": plain}, through), Toolbox({"look": plain}, through)
    outer, inner = first.standing_by(), second.standing_by()
    outer.__enter__()
    inner.__enter__()

    outer.__exit__(None, None, None)
    assert plain.__code__ is not code
    inner.__exit__(None, None, None)
    assert plain.__code__ is code


def in_a_bare_thread(work: Callable[[], Any]) -> Any:
    values: list[Any] = []

    def run() -> None:
        try:
            values.append(contextvars.Context().run(work))
        except BaseException as problem:
            values.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return values[0]


def test_a_thread_of_no_context_is_answered_by_the_only_scenario() -> None:
    result, parsed = answered(plain, lambda: in_a_bare_thread(lambda: plain("Bern")))

    assert (result, parsed) == ("scripted", [("look", {"city": "Bern"})])


def test_a_thread_of_no_context_is_an_error_where_several_scenarios_might_answer() -> None:
    first, second = Toolbox({"look": plain}, Answers()), Toolbox({"look": plain}, Answers())

    with first.standing_by(), first.at_work(), second.standing_by(), second.at_work():
        value = in_a_bare_thread(lambda: plain("Bern"))

    assert isinstance(value, RunHalted)
    assert isinstance(value.cause, CallUnattributed)
    assert str(value.cause) == (
        "plain was called in a thread that belongs to none of the 2 scenarios that run now.\n"
        "Start the thread inside the run, or give it the context: "
        "`contextvars.copy_context().run(...)`."
    )

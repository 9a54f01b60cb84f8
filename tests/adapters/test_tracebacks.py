"""What user code raises has no error of simkit's own before it: a traceback shows the code's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simkit.adapters.entry import Caller
from simkit.adapters.toolbox import Toolbox
from simkit.runtime.functions import call_function
from simkit.runtime.models.script import call_with
from tests.adapters.test_toolbox import through


class NoWay(Exception):
    """Raised by the code of these tests."""


async def coroutine(_text: str = "") -> str:
    raise NoWay


def takes_names(**_args: Any) -> str:
    raise NoWay


def takes_one(_args: Any, /) -> str:
    raise NoWay


def takes_a_town(*, town: str) -> str:
    return town


def called_in_loop() -> Any:
    caller = Caller()
    try:
        caller.call(coroutine, "Hi")
    finally:
        caller.close()


def called_in_toolbox() -> Any:
    toolbox = Toolbox({"look": takes_a_town}, through)
    with toolbox.standing_by(), toolbox.at_work():
        takes_a_town(city="Bern")  # type: ignore[call-arg]


def raised_by(run: Callable[[], Any], kind: type[Exception]) -> BaseException:
    """Return the code's own error, also where another one is raised from it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        run()
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (called_in_loop, NoWay),
        (lambda: call_function("code:coroutine", coroutine), NoWay),
        (lambda: call_with(takes_names, {"city": "Bern"}), NoWay),
        (lambda: call_with(takes_one, {"city": "Bern"}), NoWay),
        (called_in_toolbox, TypeError),
    ],
    ids=["pipeline", "function", "tool", "tool of a mapping", "tool with wrong arguments"],
)
def test_no_error_of_simkit_stands_before_that_of_the_code(
    run: Callable[[], Any], kind: type[Exception]
) -> None:
    assert raised_by(run, kind).__context__ is None

"""Failures of a pipeline that is code: the provider's, or its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from simkit.adapters.entry import CLIENTS, home_of
from simkit.capture.http.places import raised_at
from simkit.core.errors import FrameworkFailed, FunctionFailed, ModelError, PipelineError
from simkit.core.messages import Fails
from simkit.core.text import exception_text


def failure_of(
    problem: BaseException,
    fails: Fails | None,
    entry: str,
    named: Mapping[str, str] = MappingProxyType({}),
) -> PipelineError:
    """Return the error of a pipeline: the last served failure, if it caused it.

    ``named`` are the scenario's names for exceptions of the code, with their classes.
    """
    name = name_of(problem, named)
    if name:
        return FrameworkFailed(str(problem), name)
    if fails is not None and (_status_of(problem) == fails.status or _is_a_clients(problem)):
        return ModelError(fails.message, fails.kind, fails.status)
    where = raised_at(problem, home_of(entry))
    return FunctionFailed(
        f"`{entry}` raised {exception_text(problem)}{', at ' if where else ''}{where}"
    )


def raised_by(problem: BaseException) -> BaseException:
    """Return the exception that the code or its framework itself raised."""
    is_told = isinstance(problem, FrameworkFailed) and problem.__cause__ is not None
    return problem.__cause__ or problem if is_told else problem


def name_of(problem: BaseException, named: Mapping[str, str]) -> str:
    """Return the name of an exception's class, or of its nearest named base; else empty."""
    names = {entry: name for name, entry in named.items()}
    classes = (f"{class_.__module__}:{class_.__qualname__}" for class_ in type(problem).__mro__)
    return next((names[class_] for class_ in classes if class_ in names), "")


def _status_of(problem: BaseException) -> int | None:
    """Return the HTTP status in a client's exception, under any of the usual names."""
    # `status` before `code`, which aiohttp's exceptions have too, with a warning.
    codes = (getattr(problem, name, None) for name in ("status_code", "status", "code"))
    return next((code for code in codes if isinstance(code, int)), None)


def _is_a_clients(problem: BaseException) -> bool:
    """Return whether an exception comes from a provider client, directly or as its cause."""
    cause: BaseException | None = problem
    known: list[BaseException] = []
    while cause is not None and not any(cause is error for error in known):
        if type(cause).__module__.partition(".")[0] in CLIENTS:
            return True
        known.append(cause)  # Causes may be circular.
        cause = cause.__cause__
    return False

"""Documents as models: a valid one is the model, and another one is one clear error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from simkit.core.messages import ABSENT
from simkit.core.output import note_secrets
from simkit.language.paths import follow
from simkit.language.yaml import Document, SourcePath, near, text_of
from simkit.spec.fields import Fault, YamlModel, kind_text, refusal, shown_value

AnyModel = TypeVar("AnyModel", bound=BaseModel)


def validated(model: type[AnyModel], document: Document) -> AnyModel:
    """Return the document as the model; raise SourceError for the first error."""
    note_secrets(document.secrets)
    return validated_at(model, document.data, document, ())


def validated_at(model: type[AnyModel], value: Any, document: Document, at: SourcePath) -> AnyModel:
    """Return the value at a path of a document as the model, as `validated` does."""
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        path, detail, word, known, advice, key = _fault(problem, value)
    raise document.error((*at, *path), detail, word=word, known=known, advice=advice, key=key)


def validated_inside(model: type[AnyModel], value: Any, at: SourcePath) -> AnyModel:
    """Return a part of a validator's value as a model; ``at`` is the path of the part."""
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        fault = _fault(problem, value)
    raise refusal(fault._replace(path=(*at, *fault.path)))


def _fault(problem: ValidationError, data: Any) -> Fault:
    errors = problem.errors(include_url=False)
    # A typo often explains a missing key.
    first = next((error for error in errors if error["type"] == "unknown_key"), errors[0])
    path = _path_in(data, first["loc"])
    kind, context, value = first["type"], first.get("ctx", {}), first.get("input")
    if kind == "refused":
        fault: Fault = context["fault"]
        return fault._replace(path=(*path, *fault.path))
    if kind == "unknown_key":
        word = str(context["key"])
        detail = f"unknown {context['noun']} `{word}`"
        known = tuple(context["known"])
        advice = _OF_UNKNOWN.get(context["noun"], "") if _is_other(value, word, known) else ""
        return Fault((*path, word), detail, word, known, advice, key=True)
    if kind == "missing":
        key = str(first["loc"][-1])
        return Fault(path, f"key `{key}` is missing", advice=_ADDED.get(key, ""))
    if kind == "literal_error":
        known = tuple(re.findall(r"'([^']*)'", str(context["expected"])))
        key = next((step for step in reversed(path) if isinstance(step, str)), "this")
        value_text = f"`{value}`" if isinstance(value, str) else shown_value(value)
        return Fault(path, f"`{key}` cannot be {value_text}", text_of(value) or "", known)
    detail = first["msg"]
    if kind in _PHRASES:
        detail = _PHRASES[kind](value)
    elif kind in _BOUNDS:
        detail = _BOUNDS[kind].format(value=value, **context)
    advice = "Write a value behind the colon, or leave the key out." if value is None else ""
    known = _keys_of(context.get("class_name", "")) * bool(path)
    return Fault(path, detail, known=known, advice=_FORMS.get(kind, advice))


def _keys_of(model: str) -> tuple[str, ...]:
    """Return the keys of the model of a name; none if several have it."""
    models, below = [], [*YamlModel.__subclasses__()]
    while below:
        below += (each := below.pop()).__subclasses__()
        models += [each] * (each.__name__ == model)
    return models[0].known_keys() if len(models) == 1 else ()


_ADDED: Final = {
    "agents": "Name the agents: `agents: {triage: {instructions: Help the customer.}}`.",
    "flow": "Say who answers first: `flow: {handoffs: {start: …}}`, or another kind of flow.",
    "pipeline": "Name what is tested: code as `pipeline: app:run`, a pipeline of this file, or a "
    "`*.pipeline.yaml` file beside it.",
    "to": "Name the agent: `to: refunds`.",
    "turns": "Write what the user says: `turns: [{user: Hello}]`.",
}
"""Advice for a missing key that is true for any file."""

_OF_UNKNOWN: Final = {
    "key of a reply line": "If this mapping is what the model answers, write `json: {…}` around it."
}
"""Advice for a mapping with none of the keys, nor one near them, by what they are keys of."""


def _is_other(value: Mapping[str, Any], word: str, known: Sequence[str]) -> bool:
    """Return whether a mapping has none of the keys, so that it is no misspelt one."""
    return not near(word, known) and {*value}.isdisjoint(known)


_OF_MAPPINGS: Final = ("model_type", "model_attributes_type", "dict_type")
_NAMED: Final = "Write names and values: `key: value`, or braces around all: `{…}`."
_FORMS: Final = {
    "tuple_type": "Write `- ` before each item, or brackets around all: `[…]`.",
    **dict.fromkeys(_OF_MAPPINGS, _NAMED),
}

_PHRASES: Final[Mapping[str, Callable[[Any], str]]] = {
    **dict.fromkeys(_OF_MAPPINGS, lambda value: f"must be a mapping, not {kind_text(value)}"),
    "tuple_type": lambda value: f"must be a list, not {kind_text(value)}",
    "string_type": lambda value: f"must be a text, not {kind_text(value)}",
    **dict.fromkeys(
        ("int_type", "int_parsing"),
        lambda value: f"must be a whole number, not {shown_value(value)}",
    ),
    "float_type": lambda value: f"must be a number, not {shown_value(value)}",
    "bool_type": lambda value: f"must be true or false, not {shown_value(value)}",
    "too_short": lambda _: "must not be empty",
}


_BOUNDS: Final = {
    "greater_than_equal": "must be at least {ge}, not {value}",
    "less_than_equal": "must be at most {le:,}, not {value:,}",
}


def _path_in(data: Any, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the steps of pydantic's location that exist in the data.

    Pydantic also names union members.
    """
    path: list[int | str] = []
    for step in loc:
        inner = follow(data, (step,))
        if inner is not ABSENT:
            path.append(step)
            data = inner
    return tuple(path)

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
from simkit.spec.lint_catalogue import ADVICE

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
        advice = _advice_on(word, known, context["noun"], value)
        return Fault((*path, word), detail, word, known, advice, key=True)
    if kind == "missing":
        key = str(first["loc"][-1])
        return Fault(path, f"key `{key}` is missing", advice=ADVICE["missing"].get(key, ""))
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


def _advice_on(word: str, known: Sequence[str], noun: str, value: Mapping[str, Any]) -> str:
    """Return advice on an unknown key of a mapping; empty for one that may be misspelt."""
    keys = {model: _keys_of(model) for model in ADVICE["levels"]}
    places = [ADVICE["levels"][model].format(word) for model in keys if word in keys[model]]
    if places and known in keys.values():
        return f"`{word}` belongs elsewhere: {' or '.join(places)}."
    is_other = not near(word, known) and {*value}.isdisjoint(known)
    return ADVICE["unknown"].get(noun, "") if is_other else ""


_OF_MAPPINGS: Final = ("model_type", "model_attributes_type", "dict_type")
_NAMED: Final = "Write names and values: `key: value`, or braces around all: `{…}`."
_FORMS: Final = {
    "tuple_type": "Write `- ` before each item, or brackets around all: `[…]`.",
    "too_short": "Write at least one.",
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

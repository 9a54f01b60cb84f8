"""What users write, as frozen pydantic models: one clear error with its place, and JSON Schema out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    StrictBool,
    StrictInt,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from simkit.errors import MatcherError, ReferenceInvalid, SourceError
from simkit.json_schema import check_schema
from simkit.matching import check, matcher_json_schema
from simkit.references import compile as compile_references
from simkit.source import Document, text_of

MATCHER_REF = "#/$defs/matcher"


class Written(BaseModel):
    """The base of everything that a user writes: frozen, and strict about keys.

    Keys that start with ``x-`` are the author's and are not looked at.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=False,
        arbitrary_types_allowed=True,
    )  # fmt: skip

    noun: ClassVar[str] = "key"
    """What an unknown key is called in messages."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """The keys that may stand here, sorted."""
        return tuple(sorted(f.alias or name for name, f in cls.model_fields.items()))

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = cls.known_keys()
        for key in data:
            if key not in known and not key.startswith("x-"):
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown {noun} `{key}`",
                    {"noun": cls.noun, "key": key, "known": known},
                )
        if any(key.startswith("x-") for key in data):
            return {k: v for k, v in data.items() if not k.startswith("x-")}
        return data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        if described.get("type") == "object":
            described.setdefault("patternProperties", {})["^x-"] = {
                "description": "The author's own; not looked at."
            }
        return schema


def _as_text(value: Any) -> str:
    text = text_of(value)
    if text is None:
        what = "nothing" if value is None else _kind(value)
        raise PydanticCustomError("text_expected", "must be a text, not {what}", {"what": what})
    return text


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    return "a text"


def _as_template(value: Any) -> Any:
    try:
        compile_references(value)
    except ReferenceInvalid as problem:
        raise PydanticCustomError("template", "{what}", {"what": str(problem)}) from None
    return value


def _as_matcher(value: Any) -> Any:
    try:
        check(value)
    except MatcherError as problem:
        raise _located(problem) from None
    return value


def _as_schema(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"$ref"}:
        return value
    try:
        check_schema(value)
    except MatcherError as problem:
        raise _located(problem) from None
    return value


def _as_function(value: Any) -> str:
    text = _as_text(value)
    module, colon, name = text.partition(":")
    if not (colon and all(part.isidentifier() for part in [*module.split("."), name])):
        raise PydanticCustomError(
            "function", "`{text}` is no `module:function`", {"text": text}
        )
    return text


def _located(problem: MatcherError) -> PydanticCustomError:
    return PydanticCustomError(
        "located",
        "{what}",
        {
            "what": problem.what,
            "path": problem.path,
            "word": problem.word,
            "known": tuple(problem.known),
            "advice": problem.advice,
        },
    )


TEXT_SCHEMA = {"type": ["string", "number", "boolean"]}
TextValue = Annotated[str, BeforeValidator(_as_text), WithJsonSchema(TEXT_SCHEMA)]
"""A position that holds text: numbers and booleans keep their source text."""
Template = Annotated[Any, BeforeValidator(_as_template), WithJsonSchema({})]
"""Any value; ``${…}`` inside it are references."""
MatcherValue = Annotated[Any, BeforeValidator(_as_matcher), WithJsonSchema({"$ref": MATCHER_REF})]
SchemaValue = Annotated[
    Any, BeforeValidator(_as_schema), WithJsonSchema({"type": ["object", "boolean"]})
]
FunctionName = Annotated[
    str,
    BeforeValidator(_as_function),
    WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"}),
]
Count = Annotated[StrictInt, BeforeValidator(lambda v: _at_least(v, 0)), WithJsonSchema(
    {"type": "integer", "minimum": 0})]  # fmt: skip
Positive = Annotated[StrictInt, BeforeValidator(lambda v: _at_least(v, 1)), WithJsonSchema(
    {"type": "integer", "minimum": 1})]  # fmt: skip
Flag = StrictBool


def _at_least(value: Any, least: int) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PydanticCustomError(
            "whole_number", "must be a whole number, not {what}", {"what": _shown(value)}
        )
    if value < least:
        raise PydanticCustomError(
            "too_small", "must be at least {least}, not {value}", {"least": least, "value": value}
        )
    return int(value)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str)) else _kind(value)


def refuse(what: str, known: tuple[str, ...] = (), word: str = "", advice: str = "") -> Exception:
    """The exception that a validator raises to refuse a value with one sentence."""
    return PydanticCustomError(
        "located", "{what}",
        {"what": what, "path": (), "word": word, "known": known, "advice": advice},
    )  # fmt: skip


def one_key(value: Any, noun: str, known: tuple[str, ...], also: tuple[str, ...] = ()) -> None:
    """Refuses a mapping unless it has exactly one of ``known``, and beside it only ``also``."""
    found = [key for key in value if key in known]
    for key in value:
        if key not in known and key not in also and not key.startswith("x-"):
            raise PydanticCustomError(
                "unknown_key", "unknown {noun} `{key}`",
                {"noun": noun, "key": key, "known": (*known, *also)},
            )  # fmt: skip
    if len(found) != 1:
        raise refuse(
            f"exactly one of these keys must stand here, not {len(found)}", known=known
        )


AnyModel = TypeVar("AnyModel", bound=BaseModel)


def validated(model: type[AnyModel], document: Document) -> AnyModel:
    """Returns the document as the model; raises SourceError for the first thing wrong with it."""
    try:
        return model.model_validate(document.data)
    except ValidationError as problem:
        raise _source_error(problem, document) from None


def _source_error(problem: ValidationError, document: Document) -> SourceError:
    first = min(problem.errors(include_url=False), key=lambda err: _rank(err["type"]))
    path = _path_in(document.data, first["loc"])
    kind, context = first["type"], first.get("ctx", {})
    if kind == "unknown_key":
        key = str(context["key"])
        what = f"unknown {context['noun']} `{key}`"
        return document.error(
            (*path, key), what, word=key, known=tuple(context["known"]), key=True
        )
    if kind == "located":
        return document.error(
            (*path, *context["path"]), context["what"], word=context["word"],
            known=tuple(context["known"]), advice=context["advice"],
        )  # fmt: skip
    if kind == "missing":
        key = str(first["loc"][-1])
        return document.error(path, f"key `{key}` is missing")
    phrase = _PHRASES.get(kind)
    if phrase is None:
        return document.error(path, first["msg"])
    return document.error(path, phrase(first.get("input"), context))


def _rank(kind: str) -> int:
    """Unknown keys first: a misspelt key is often the reason for a missing one."""
    return 0 if kind == "unknown_key" else 1


_PHRASES: Mapping[str, Callable[[Any, Mapping[str, Any]], str]] = {
    "literal_error": lambda value, ctx: f"must be {ctx['expected']}, not {_shown(value)}",
    "model_type": lambda value, _: f"must be a mapping, not {_kind(value)}",
    "model_attributes_type": lambda value, _: f"must be a mapping, not {_kind(value)}",
    "dict_type": lambda value, _: f"must be a mapping, not {_kind(value)}",
    "tuple_type": lambda value, _: f"must be a list, not {_kind(value)}",
    "list_type": lambda value, _: f"must be a list, not {_kind(value)}",
    "string_type": lambda value, _: f"must be a text, not {_kind(value)}",
    "int_type": lambda value, _: f"must be a whole number, not {_shown(value)}",
    "bool_type": lambda value, _: f"must be true or false, not {_shown(value)}",
    "float_type": lambda value, _: f"must be a number, not {_shown(value)}",
    "too_short": lambda _value, _ctx: "must not be empty",
}


def _path_in(data: Any, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The steps of pydantic's location that exist in the data: it also names union members."""
    path: list[int | str] = []
    for step in loc:
        if (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and 0 <= step < len(data)
        ):
            path.append(step)
            data = data[step]
    return tuple(path)


def json_schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """Returns the model's JSON Schema (draft 2020-12), matchers included."""
    schema = model.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = title
    schema.setdefault("$defs", {}).update(matcher_json_schema())
    return schema

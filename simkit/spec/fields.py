"""Base of file models: frozen pydantic models, one clear error with its place, and JSON Schema."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    StrictBool,
    StrictFloat,
    StrictInt,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import (
    no_info_before_validator_function,
    no_info_plain_validator_function,
)

from simkit.core.errors import MatcherError, ReferenceInvalid
from simkit.core.text import late_pattern
from simkit.language.json_schema import check_schema
from simkit.language.matching import check
from simkit.language.matching.kinds import Kind, check_kind
from simkit.language.paths import compile as compile_references
from simkit.language.paths import walk
from simkit.language.yaml import Document, SourcePath, text_of

ANYTHING: Final = ("",)
"""The known names where simkit cannot know them, such as names in user code."""
MATCHER_SCHEMA: Final[Mapping[str, Any]] = {"x-matcher": True}
"""Placeholder for a matcher's JSON Schema, replaced later: pydantic follows no foreign ``$ref``."""


_BUILT: Final[ContextVar[type[BaseModel] | None]] = ContextVar("_BUILT", default=None)
"""The model whose validator is being built."""


class Later:
    """The validator of a model inside another one; its first value makes it."""

    __slots__ = ("model",)

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    def __call__(self, value: Any) -> Any:
        return self.model.model_validate(value)


def is_own_key(key: Any) -> bool:
    """Return whether a key is the author's own; keys in code need not be texts."""
    return isinstance(key, str) and key.startswith("x-")


class YamlModel(BaseModel):
    """The base of everything that a user writes: frozen, and strict about keys.

    Keys that start with ``x-`` belong to the author and are ignored.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=False,
        arbitrary_types_allowed=True,
        # A model is built when a file first uses it: most files use few.
        defer_build=True,
    )

    noun: ClassVar[str] = "key"
    """The name of an unknown key in messages."""

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Any = None,
    ) -> bool | None:
        """Build the validator of this model; models inside it are built when a file has them."""
        outer = _BUILT.get()
        _BUILT.set(cls)
        try:
            return super().model_rebuild(
                force=force,
                raise_errors=raise_errors,
                _parent_namespace_depth=_parent_namespace_depth + 1,
                _types_namespace=_types_namespace,
            )
        finally:
            _BUILT.set(outer)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if _BUILT.get() is cls:
            return handler(source)
        return no_info_plain_validator_function(Later(cls))

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the valid keys, sorted."""
        return tuple(sorted(f.alias or name for name, f in cls.model_fields.items()))

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = _known_keys(cls)
        has_own = False
        for key in data:
            if is_own_key(key):
                has_own = True
            elif key not in known and cls.model_config["extra"] == "forbid":
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown {noun} `{key}`",
                    {"noun": cls.noun, "key": str(key), "known": known},
                )
        if has_own:
            return {k: v for k, v in data.items() if not is_own_key(k)}
        return data

    @classmethod
    def describe(cls, described: dict[str, Any]) -> None:
        """Add to the JSON Schema of this model what only the model knows."""


@cache
def _known_keys(model: type[YamlModel]) -> tuple[str, ...]:
    """Return the keys of a model, which are looked up for every mapping that is read."""
    return model.known_keys()


def defaults_of(model: type[YamlModel], alias: str | None = None) -> Any:
    """Return a field that has a model's defaults where a file has no such key.

    They are frozen, so that all files share them, and need no validator.
    """
    return Field(default_factory=cache(model.model_construct), alias=alias)


class Choice(YamlModel):
    """A model with exactly one of its keys."""

    @classmethod
    def known_keys(cls) -> tuple[str, ...]:
        """Return the valid keys, in the order in which they are declared."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            one_key(data, cls.noun, cls.known_keys())
            return {key: value for key, value in data.items() if not is_own_key(key)}
        return data

    @classmethod
    def describe(cls, described: dict[str, Any]) -> None:
        """Add that exactly one key is needed."""
        described["oneOf"] = [{"required": [key]} for key in cls.known_keys()]


BY_FORM: Final = Discriminator(lambda value: "name" if isinstance(value, str) else "options")
"""Tells a name from a name with options."""


def names_schema(names: tuple[str, ...]) -> WithJsonSchema:
    """Return the JSON Schema of one of these names, or of the user's own function."""
    return WithJsonSchema({"anyOf": [{"enum": [*names]}, FUNCTION_SCHEMA]})


def check_name(
    noun: str, names: tuple[str, ...], with_options: Mapping[str, str] = MappingProxyType({})
) -> BeforeValidator:
    """Return what refuses unknown names; ``with_options`` says how those with options look."""

    def check(value: Any) -> Any:
        if not isinstance(value, (dict, str)):
            raise refuse(f"a {noun} must be a name, or a name with options")
        if isinstance(value, str) and value in with_options:
            raise refuse(f"`{value}` needs options", advice=with_options[value])
        if isinstance(value, str) and value not in names and not is_function_name(value):
            raise refuse(
                f"unknown {noun} `{value}`",
                known=(*names, *with_options),
                word=value,
                advice=f"A {noun} of your own is written `module:function`.",
            )
        return value

    return BeforeValidator(check)


def _as_text(value: Any) -> str:
    if type(value) is str:
        return value
    text = text_of(value)
    if text is None:
        problem = "nothing" if value is None else kind_text(value)
        raise PydanticCustomError("text_expected", "must be a text, not {what}", {"what": problem})
    return text


def kind_text(value: Any) -> str:
    """Return what a value is, for messages: `a mapping`, `a list`, `null`."""
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
    return "a text" if isinstance(value, str) else f"a Python object ({type(value).__name__})"


def _as_template(value: Any) -> Any:
    try:
        compile_references(value)
    except ReferenceInvalid as problem:
        path = problem.args[1] if len(problem.args) > 1 else ()
        raise located(MatcherError(tuple(path), str(problem))) from None
    return value


def _as_matcher(value: Any) -> Any:
    try:
        check(value)
    except MatcherError as problem:
        raise located(problem) from None
    return value


def matcher_of(kind: Kind, alone: type | tuple[type, ...] = ()) -> BeforeValidator:
    """Return the validator that rejects a matcher that can never hold for a kind of value.

    A value of a type in ``alone`` is short for another matcher if it is the whole claim.
    """

    def of_kind(value: Any) -> Any:
        checked = _as_matcher(value)
        if isinstance(checked, alone):
            return checked
        try:
            check_kind(checked, kind)
        except MatcherError as problem:
            raise located(problem) from None
        return checked

    return BeforeValidator(of_kind)


def _as_schema(value: Any) -> Any:
    if isinstance(value, str):
        return as_function(value)
    # Code that knows the pipeline's `schemas` checks it.
    if _refers_by_name(value):
        return value
    try:
        check_schema(value)
    except MatcherError as problem:
        raise located(problem) from None
    return value


def _refers_by_name(schema: Any) -> bool:
    """Return whether a schema refers to a named one, as ``{$ref: Name}`` does."""
    return any(
        path[-1:] == ("$ref",) and isinstance(inner, str) and not inner.startswith("#")
        for path, inner in walk(schema)
    )


def is_function_name(text: str) -> bool:
    """Return whether a text is ``module:function``."""
    return FUNCTION_NAME.fullmatch(text) is not None


def as_function(value: Any) -> str:
    """Return the name of a function; raise what refuses any other text."""
    text = _as_text(value)
    if not is_function_name(text):
        is_inner = METHOD_NAME.match(text) is not None
        raise refuse(
            f"`{text}` is no `module:function`",
            advice="Only a name at the top of a module can stand here: write a function there that "
            "does the same, and name that."
            if is_inner
            else "Write a dotted module, a colon, and a name in it: `myapp.tools:log_meal`.",
        )
    return text


def as_method(value: Any) -> str:
    """Return the name of a function or of a class's method; raise what refuses any other text."""
    text = _as_text(value)
    if METHOD_NAME.fullmatch(text) is None:
        raise refuse(
            f"`{text}` is no `module:function`, and no `module:Class.method`",
            advice="Write a dotted module, a colon, and a name in it: `myapp.tools:log_meal`.",
        )
    return text


def located(problem: MatcherError, at: SourcePath = ()) -> PydanticCustomError:
    """Return the exception with which a validator reports a matcher at ``at`` in its value."""
    path = (*at, *problem.path)
    return refusal(Fault(path, problem.what, problem.word, tuple(problem.known), problem.advice))


def refusal(fault: Fault) -> PydanticCustomError:
    """Return the exception that carries the fault to `simkit.spec.loading`."""
    return PydanticCustomError("refused", "{what}", {"what": fault.problem, "fault": fault})


FUNCTION_NAME: Final = late_pattern(r"\w[\w-]*(\.\w[\w-]*)*:[^\W\d]\w*")
"""The pattern of ``module:function``. Modules need not be Python names: folders such as
``01_intro`` can be imported by name."""
FUNCTION_SCHEMA: Final = {"type": "string", "pattern": f"^{FUNCTION_NAME.pattern}$"}
METHOD_NAME: Final = late_pattern(rf"{FUNCTION_NAME.pattern}(\.[^\W\d]\w*)?")
"""The pattern of ``module:function`` and ``module:Class.method``."""
METHOD_SCHEMA: Final = {"type": "string", "pattern": f"^{METHOD_NAME.pattern}$"}
TEXT_SCHEMA: Final = {"type": ["string", "number", "boolean"]}


def list_schema(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a list that is not empty."""
    return {"type": "array", "minItems": 1, "items": dict(items)}


def mapping_schema(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that is not empty."""
    return {"type": "object", "minProperties": 1, "additionalProperties": dict(values)}


TextValue = Annotated[str, BeforeValidator(_as_text), WithJsonSchema(TEXT_SCHEMA)]
"""A text; numbers and booleans keep their source text."""
Template = Annotated[Any, BeforeValidator(_as_template), WithJsonSchema({})]
"""Any value, with ``${…}`` references in it."""
AS_MATCHER: Final = WithJsonSchema(dict(MATCHER_SCHEMA))
MatcherValue = Annotated[Any, BeforeValidator(_as_matcher), AS_MATCHER]
SchemaValue = Annotated[
    Any,
    BeforeValidator(_as_schema),
    WithJsonSchema({"anyOf": [{"type": ["object", "boolean"]}, FUNCTION_SCHEMA]}),
]
"""A JSON Schema, a named one as ``{$ref: Name}``, or ``module:Model``."""
FunctionName = Annotated[str, BeforeValidator(as_function), WithJsonSchema(FUNCTION_SCHEMA)]
MethodName = Annotated[str, BeforeValidator(as_method), WithJsonSchema(METHOD_SCHEMA)]
Count = Annotated[StrictInt, Field(ge=0)]
Positive = Annotated[StrictInt, Field(ge=1)]
Number = StrictFloat


class OrForm:
    """Marker of a value that may also be written in one of these forms, for its JSON Schema."""

    def __init__(self, *forms: Mapping[str, Any]) -> None:
        self._forms = forms

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [*self._forms, handler(core_schema)]}


OrText: Final = OrForm(TEXT_SCHEMA)


def as_list(value: Any) -> Any:
    """Return a value as a list, if it is none."""
    return value if isinstance(value, (list, tuple)) else (value,)


class OneOrMore:
    """Marker of a list that may be written as its only item, if that has one of these types."""

    def __init__(self, *types: type) -> None:
        self._types = types or (object,)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        def listed(value: Any) -> Any:
            return as_list(value) if isinstance(value, self._types) else value

        return no_info_before_validator_function(listed, handler(source))

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        described = handler(core_schema)
        forms = described.get("anyOf", [described])
        return {"anyOf": [next(form["items"] for form in forms if "items" in form), *forms]}


def text_as(key: str, *also: type) -> BeforeValidator:
    """Return the validator that reads a text as a mapping with this one key; ``also`` numbers."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, (str, *also)) else value)


Flag = StrictBool


def shown_value(value: Any) -> str:
    """Return a value for messages: texts in backquotes, lists and mappings by their kind."""
    if isinstance(value, str):
        return f"the text `{value}`" if value else "an empty text"
    return text_of(value) or kind_text(value)


def refuse(
    problem: str, known: tuple[str, ...] = (), word: str = "", advice: str = "", at: SourcePath = ()
) -> Exception:
    """Return the exception with which a validator rejects a value in one sentence.

    ``at`` is the path of the error in the value.
    """
    return refusal(Fault(at, problem, word, known, advice))


def one_key(value: Any, noun: str, known: tuple[str, ...], also: tuple[str, ...] = ()) -> None:
    """Reject a mapping unless it has exactly one key of ``known`` and otherwise only ``also``."""
    keys = [key for key in value if key in known]
    for key in value:
        if key not in known and key not in also and not is_own_key(key):
            raise PydanticCustomError(
                "unknown_key",
                "unknown {noun} `{key}`",
                {"noun": noun, "key": str(key), "known": (*known, *also)},
            )
    if len(keys) != 1:
        several = f": {', '.join(keys)}" if keys else ""
        raise refuse(
            f"exactly one of these keys must stand here, not {len(keys)}{several}", known=known
        )


def require(
    document: Document,
    path: SourcePath,
    noun: str,
    word: str,
    known: Iterable[str],
    key: bool = False,
) -> None:
    """Raise SourceError for the word at ``path``, or for the key there, if it is not known."""
    # A copy for each word would cost the square of their number.
    if known is ANYTHING or (isinstance(known, Container) and word in known):
        return
    known = tuple(dict.fromkeys(known))
    if word not in known:
        problem = f"unknown {noun} `{word}`" + ("" if known else f": `{noun}s:` declares none")
        raise document.error(path, problem, word=word, known=known, key=key)


class Fault(NamedTuple):
    """The first error of a value: its path and its text."""

    path: SourcePath
    problem: str
    word: str = ""
    known: tuple[str, ...] = ()
    advice: str = ""
    key: bool = False

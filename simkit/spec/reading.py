"""Values of models, made by plain functions where a value is valid as it is written.

The functions are made from a model's fields, for each key when a file first has it. A value that
they are not certain about is pydantic's: it converts, refuses, and says why. So a file that is
valid is read without pydantic's validators, which take longer to make than a small file to run.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import get_annotations
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from annotated_types import Le, MinLen
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Strict,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

Read: TypeAlias = Callable[[Any], Any]
_ModelT = TypeVar("_ModelT", bound=BaseModel)


class _Unsure(Exception):
    """A value may be invalid, or need a conversion."""


def read(model: type[_ModelT], value: Any) -> _ModelT:
    """Return the value as the model; raise pydantic's ValidationError."""
    reader = _READERS.get(model)
    if reader is None:
        reader = _READERS[model] = _Reader(model)
    try:
        return reader.read(value)  # type: ignore[return-value]  # the reader is the model's own
    except (_Unsure, PydanticCustomError, ValidationError):
        return model.__pydantic_validator__.validate_python(value)  # type: ignore[no-any-return]


def is_own_key(key: Any) -> bool:
    """Return whether a key is the author's own; keys in code need not be texts."""
    return isinstance(key, str) and key.startswith("x-")


class _Reader:
    """Makes one model's instances."""

    def __init__(self, model: type[BaseModel]) -> None:
        fields = model.__pydantic_fields__
        self._model = model
        self._fields = {field.alias or name: (name, field) for name, field in fields.items()}
        """Key to the field and its name."""
        self._readers: dict[str, tuple[str, Read]] = {}
        """Key to the field's name and the function that reads its value, if a file had it."""
        self._forms: dict[tuple[Any, ...], _Form] = {}
        """The keys of a mapping, in its order, to how such a mapping is read."""
        self._required = frozenset(name for name, field in fields.items() if field.is_required())
        self._defaults = {name: field.default for name, field in fields.items()}
        self._factories = [
            (name, field.default_factory)
            for name, field in fields.items()
            if field.default_factory is not None
        ]
        self._extra = _of_extra(model)
        self._has_private = model.__pydantic_post_init__ is not None

    def read(self, data: Any) -> BaseModel:
        """Return the model of a mapping; raise _Unsure."""
        if type(data) is not dict:
            raise _Unsure
        keys = (*data,)
        form = self._forms.get(keys)
        if form is None:
            form = self._form(keys)
            if len(self._forms) < _FORMS_MAX:
                self._forms[keys] = form
        values = form.values.copy()
        for key, name, reader in form.readers:
            values[name] = reader(data[key])
        for name, factory in form.factories:
            values[name] = factory()
        extra: dict[str, Any] | None = None
        if self._extra is not None:
            extra = {key: self._extra(data[key]) for key in form.extra}
        instance = _new(self._model)
        _set(instance, "__dict__", values)
        # Nothing adds to it in place: a copy of the instance has one of its own.
        _set(instance, "__pydantic_fields_set__", form.given)
        _set(instance, "__pydantic_extra__", extra)
        if self._has_private:
            instance.model_post_init(None)
        else:
            _set(instance, "__pydantic_private__", None)
        return instance

    def _form(self, keys: tuple[Any, ...]) -> _Form:
        """Return how mappings with these keys are read; raise _Unsure if they may be invalid."""
        readers: list[tuple[str, str, Read]] = []
        extra: list[str] = []
        for key in keys:
            if key in self._fields:
                name, field = self._fields[key]
                if key not in self._readers:
                    self._readers[key] = name, _of_field(field)
                readers.append((key, *self._readers[key]))
            elif not is_own_key(key):
                if self._extra is None:
                    raise _Unsure
                extra.append(key)
        given = {*(name for _, name, _ in readers), *extra}
        if not self._required <= given:
            raise _Unsure
        values, factories = self._defaults.copy(), []
        for name, factory in self._factories:
            if name not in given:
                make, is_shared = _default_of(factory)
                if is_shared:
                    values[name] = make()
                else:
                    factories.append((name, make))
        return _Form(values, readers, factories, given, extra)


class _Form(NamedTuple):
    """How mappings with the same keys are read."""

    values: dict[str, Any]
    """Field to its value where the mapping has none, as far as all instances share it."""
    readers: list[tuple[str, str, Read]]
    """Key, field and the function that reads the value."""
    factories: list[tuple[str, Callable[[], Any]]]
    """Field to the function that makes the value of one that the mapping lacks."""
    given: set[str]
    """The fields and other names that the mapping gives."""
    extra: list[str]
    """The keys without a field."""


_FORMS_MAX: Final = 256
_READERS: Final[dict[type[BaseModel], _Reader]] = {}
_new: Final[Callable[[type[BaseModel]], BaseModel]] = object.__new__
_set: Final = object.__setattr__


def _default_of(factory: Any) -> tuple[Callable[[], Any], bool]:
    """Return the function that makes a default value, and whether all instances share its value."""
    if not (isinstance(factory, type) and issubclass(factory, BaseModel)):
        return factory, False
    # Instances that nothing changes are one instance.
    is_shared = factory.model_config.get("frozen") and factory.__pydantic_post_init__ is None
    if is_shared:
        return partial(_default_model, factory), True
    return partial(read, factory, {}), False


@cache
def _default_model(model: type[BaseModel]) -> BaseModel:
    return read(model, {})


def _of_extra(model: type[BaseModel]) -> Read | None:
    """Return the function that reads the values of keys without a field; None if there are none."""
    if model.model_config.get("extra") != "allow":
        return None
    values = get_args(get_annotations(model, eval_str=True).get("__pydantic_extra__"))
    return _of(values[1]) if len(values) == 2 else _unsure


def _unsure(value: Any) -> Any:
    raise _Unsure


def _of_field(field: FieldInfo) -> Read:
    return _with(field.annotation, field.metadata)


def _of(annotation: Any) -> Read:
    """Return the function that reads the values of a type."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        return _with(kind, metadata)
    return _with(annotation, ())


def _with(kind: Any, metadata: Sequence[Any]) -> Read:
    """Return the same for a type with validators, of which the last one to come before is first."""
    choices = [item for item in metadata if isinstance(item, Discriminator)]
    reader = _chosen(kind, choices[0]) if choices else _plain(kind)
    for item in metadata:
        if isinstance(item, BeforeValidator) and (before := _alone(item.func)):
            reader = before if reader is _same else _then(before, reader)
        elif isinstance(item, AfterValidator) and (after := _alone(item.func)):
            reader = _then(reader, after)
        elif isinstance(item, MinLen):
            reader = _then(reader, _at_least(item.min_length))
        elif isinstance(item, Le):
            reader = _then(reader, _at_most(item.le))
        elif isinstance(item, FieldInfo) and len(item.metadata) == 1:
            (constraint,) = item.metadata
            if not isinstance(constraint, MinLen):
                return _unsure
            reader = _then(reader, _at_least(constraint.min_length))
        elif not (
            isinstance(item, (WithJsonSchema, Discriminator, Strict, Tag)) or _only_describes(item)
        ):
            return _unsure
    return reader


def _alone(function: Any) -> Read | None:
    """Return a validator if it takes the value alone; pydantic gives some more than that."""
    takes_one = isinstance(function, FunctionType) and function.__code__.co_argcount == 1
    return function if takes_one else None


def _only_describes(item: Any) -> bool:
    return not hasattr(item, "__get_pydantic_core_schema__") and hasattr(
        item, "__get_pydantic_json_schema__"
    )


def _plain(kind: Any) -> Read:
    """Return the function that reads the values of a type without validators."""
    if kind is Any:
        return _same
    if kind in _EXACT:
        return _EXACT[kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _literal(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is ...:
        return _items(_of(arguments[0]))
    if origin is dict and arguments[0] is str:
        return _mapping(_of(arguments[1]))
    if origin in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        return _optional(_of(next(kind for kind in arguments if kind is not NoneType)))
    return _unsure


def _same(value: Any) -> Any:
    return value


def _exactly(kind: type) -> Read:
    def reader(value: Any) -> Any:
        if type(value) is not kind:
            raise _Unsure
        return value

    return reader


_EXACT: Final[dict[Any, Read]] = {kind: _exactly(kind) for kind in (str, int, float, bool)}


def _then(first: Read, second: Read) -> Read:
    return lambda value: second(first(value))


def _at_least(length: int) -> Read:
    def reader(value: Any) -> Any:
        if len(value) < length:
            raise _Unsure
        return value

    return reader


def _at_most(most: Any) -> Read:
    def reader(value: Any) -> Any:
        if value > most:
            raise _Unsure
        return value

    return reader


def _literal(words: Sequence[Any]) -> Read:
    def reader(value: Any) -> Any:
        for word in words:
            if value == word and type(value) is type(word):
                return word
        raise _Unsure

    return reader


def _items(inner: Read) -> Read:
    def reader(value: Any) -> Any:
        if type(value) is not list and type(value) is not tuple:
            raise _Unsure
        return tuple([inner(item) for item in value])

    return reader


def _mapping(inner: Read) -> Read:
    def reader(value: Any) -> Any:
        if type(value) is not dict:
            raise _Unsure
        for key in value:
            if type(key) is not str:
                raise _Unsure
        return {key: inner(value[key]) for key in value}

    return reader


def _optional(inner: Read) -> Read:
    return lambda value: None if value is None else inner(value)


def _model(model: type[BaseModel]) -> Read:
    return _shared(model) if model in _REPEATED else lambda value: read(model, value)


_REPEATED: Final[dict[type[BaseModel], dict[bytes, BaseModel]]] = {}
"""Models whose equal values are one instance, from the second on: content to instance."""
_REPEATED_MAX: Final = 1_024
_SEEN_MAX: Final = 16_384
_CONTENT_MAX: Final = 8_192
"""Bytes of content that are kept: larger values seldom repeat."""


def repeated(model: type[_ModelT]) -> type[_ModelT]:
    """Declare a frozen model whose values many files and turns repeat, and which say much."""
    _REPEATED[model] = {}
    return model


def content_of(value: Any) -> bytes:
    """Return the content of plain data; raise ValueError for a value of any other class.

    Values with one content are equal, but not the reverse: `1` and `1.0`, or a number as its file
    spells it.
    """
    # Later versions write an object that is used twice in another way than two equal ones.
    return marshal.dumps(value, 2)


def _shared(model: type[BaseModel]) -> Read:
    known = _REPEATED[model]
    hashes: set[int] = set()

    def seen_before(content: int) -> bool:
        """Return whether there was a value with this hash of its content: most never come again."""
        if content in hashes:
            return True
        if len(hashes) >= _SEEN_MAX:
            hashes.clear()
        hashes.add(content)
        return False

    def reader(value: Any) -> Any:
        try:
            content = content_of(value)
        except ValueError:
            return read(model, value)
        instance = known.get(content)
        if instance is not None:
            return instance
        if not seen_before(hash(content)) or len(content) > _CONTENT_MAX:
            return read(model, value)
        own = marshal.loads(content)
        if _has_bytes(own):
            return read(model, value)
        # Code may change the data that it gave: the instance has its own.
        instance = read(model, own)
        if len(known) >= _REPEATED_MAX:
            known.clear()
        known[content] = instance
        return instance

    return reader


_SEQUENCES: Final = frozenset((list, tuple, set, frozenset))


def _has_bytes(value: Any) -> bool:
    """Return whether plain data has bytes, which may have been an array or another buffer."""
    below = [value]
    for item in below:
        kind = type(item)
        if kind is dict:
            below += item
            below += item.values()
        elif kind in _SEQUENCES:
            below += item
        elif kind is bytes:
            return True
    return False


def _chosen(kind: Any, choice: Discriminator) -> Read:
    """Return the function for a union whose member a function names."""
    tag_of: Any = choice.discriminator
    members: dict[Any, Read] = {}
    for member in get_args(kind):
        tags = [item for item in get_args(member)[1:] if isinstance(item, Tag)]
        if not tags or not callable(tag_of):
            return _unsure
        members[tags[0].tag] = _of(member)

    def reader(value: Any) -> Any:
        member = members.get(tag_of(value))
        if member is None:
            raise _Unsure
        return member(value)

    return reader

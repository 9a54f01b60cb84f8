"""Faker's words in scenarios: drawn from the seed, at the scenario's start, so that they are the
same every time."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from typing import Any, Final

import msgspec

from simkit.chance import Chance
from simkit.controlled import Still, World
from simkit.errors import ReferenceInvalid

_DRAW: Final = re.compile(
    r"^(?:(?P<locale>[a-z]{2,3}(?:_[A-Z]{2})?)\.)?(?P<provider>[A-Za-z_]\w*)"
    r"(?P<arguments>\(.*\))?(?:\[(?P<number>\d+)\])?$",
    re.DOTALL,
)
_MOST: Final = 1_000
"""The items that are taken of a provider that goes on giving."""


class _Draw(msgspec.Struct, frozen=True):
    """What a reference asks Faker for."""

    provider: str
    locale: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    number: int

    @property
    def name(self) -> str:
        """What its chance is named by: equal words for equal questions."""
        given = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in sorted(self.options.items()))]
        arguments = f"({', '.join(given)})" if given else ""
        before = f"{self.locale}." if self.locale else ""
        return f"{before}{self.provider}{arguments}[{self.number}]"


class Fakes(Mapping[str, Any]):
    """``${fake.name}``: one name gives one word a scenario; ``${fake.name[1]}`` gives another.

    ``${fake.random_int(1, 6)}`` gives arguments, as Python writes them; ``${fake.de_DE.city}`` is
    in a language. Today, for Faker, is the scenario's start.
    """

    def __init__(self, seed: int, start: str) -> None:
        self._chance = Chance(seed).child("fake")
        self._start = datetime.fromisoformat(start)
        self._fakers: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        """Returns a word; raises KeyError for no provider, ReferenceInvalid for what Faker does
        not take."""
        if key not in self._made:
            self._made[key] = self._drawn(_read(key))
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def known(self) -> tuple[str, ...]:
        """The providers' names."""
        faker = self._faker("")
        return tuple(name for name in dir(faker) if _is_provider(faker, name))

    def _drawn(self, draw: _Draw) -> Any:
        chance = self._chance.child(draw.name)
        with World(Still(self._start), chance).at_work():
            faker = self._faker(draw.locale)
            if not _is_provider(faker, draw.provider):
                if hasattr(faker, draw.provider):
                    raise ReferenceInvalid(
                        f"`{draw.provider}` is a method of Faker's that gives no word"
                    )
                raise KeyError(draw.provider)
            faker.seed_instance(chance.random.getrandbits(64))
            try:
                provider = getattr(faker, draw.provider)
                today = _defaults_of(provider, self._start) if not draw.args else {}
                return plain(provider(*draw.args, **{**today, **draw.options}))
            except Exception as problem:
                what = f"{type(problem).__name__}: {problem}"
                raise ReferenceInvalid(f"Faker's `{draw.provider}` failed: {what}") from problem

    def _faker(self, locale: str) -> Any:
        from faker import Faker

        if locale not in self._fakers:
            try:
                self._fakers[locale] = Faker(locale) if locale else Faker()
            except AttributeError:
                raise ReferenceInvalid(f"Faker has no locale `{locale}`") from None
        return self._fakers[locale]


def _read(key: str) -> _Draw:
    """Returns what a reference asks for; raises KeyError, or ReferenceInvalid for arguments that
    are no literals."""
    found = _DRAW.match(key)
    if found is None:
        raise KeyError(key)
    args, options = _arguments(found["arguments"] or "()")
    return _Draw(
        provider=found["provider"], locale=found["locale"] or "", args=args, options=options,
        number=int(found["number"] or 0),
    )  # fmt: skip


def _arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        # `(1)(2)` and `(**{…})` are Python too, and of them something would be lost.
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert all(keyword.arg for keyword in call.keywords)
        args = tuple(map(ast.literal_eval, call.args))
        return args, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    except (AssertionError, SyntaxError, ValueError):
        raise ReferenceInvalid(
            f"`{text}` must be arguments as Python writes them: (1, 6), (max_value=9.5), "
            '(elements=("a", "b"))'
        ) from None


def _defaults_of(provider: Callable[..., Any], start: datetime) -> dict[str, Any]:
    """Returns the arguments that are the day on which Faker was imported unless they are given."""
    return {
        name: start.date()
        for name, parameter in inspect.signature(provider).parameters.items()
        if type(parameter.default) is date
    }


def _is_provider(faker: Any, name: str) -> bool:
    """Whether a word comes of a name: a method of one of Faker's providers."""
    from faker.providers import BaseProvider

    if name.startswith("_"):
        return False
    try:
        method = getattr(faker, name, None)
    except TypeError:  # Attributes that Faker has of its class alone.
        return False
    return isinstance(getattr(method, "__self__", None), BaseProvider)


def plain(value: Any) -> Any:
    """Returns a word as plain data, the same in every process."""
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, Iterator):
        return [plain(inner) for inner in islice(value, _MOST)]
    if isinstance(value, type):
        return value.__qualname__
    if getattr(type(value), "__repr__", None) is object.__dict__["__repr__"]:
        return type(value).__qualname__
    return str(value)

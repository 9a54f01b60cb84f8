"""Faker's words in scenarios: drawn from the seed, so the same in every run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

from simkit.core.errors import FakeInvalid
from simkit.core.rng import Chance
from simkit.core.text import late_pattern
from simkit.language.yaml import near

_DRAW: Final = late_pattern(
    r"^(?:(?P<locale>[a-z]{2,3}(?:_[A-Z]{2})?)\.)?(?P<unique>unique\.)?(?P<provider>[A-Za-z_]\w*)"
    r"(?P<arguments>\(.*\))?(?:\[(?P<number>\d+)\])?$",
    re.DOTALL,
)
_MOST: Final = 1_000
"""The number of items taken from an endless provider, and of different words drawn from one."""
_TRIES: Final = 1_000
"""The number of draws for a word that must be unique."""


class Draw(msgspec.Struct, frozen=True):
    """One reference to Faker."""

    provider: str
    locale: str = ""
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    number: int = 0
    unique: bool = False
    """Whether the word must differ from all earlier ones."""

    @property
    def question(self) -> str:
        """Return the key under which words must be unique.

        It is the same in all languages.
        """
        arguments = [
            *map(repr, self.args),
            *(f"{k}={v!r}" for k, v in sorted(self.options.items())),
        ]
        return f"{self.provider}({', '.join(arguments)})" if arguments else self.provider

    @property
    def name(self) -> str:
        """Return the name of its random source: equal references give equal words."""
        before = f"{self.locale}." if self.locale else ""
        return f"{before}{'unique.' if self.unique else ''}{self.question}[{self.number}]"


class Words:
    """Faker at a scenario's start; its words depend on the random source only."""

    def __init__(self, start: str) -> None:
        self._start = datetime.fromisoformat(start)
        self._fakers: dict[str, Any] = {}

    def known(self, locale: str = "") -> tuple[str, ...]:
        """Return the providers' names."""
        faker = self.faker(locale)
        return tuple(name for name in dir(faker) if _is_provider(faker, name))

    def drawn(self, draw: Draw, chance: Chance) -> Any:
        """Return a word; raise KeyError for an unknown provider, FakeInvalid for its arguments."""
        from simkit.core.determinism import Still, World

        with World(Still(self._start), chance).at_work():
            faker = self.faker(draw.locale)
            if not _is_provider(faker, draw.provider):
                if hasattr(faker, draw.provider):
                    raise FakeInvalid(
                        f"`{draw.provider}` is a method of Faker's that gives no word"
                    )
                raise KeyError(draw.provider)
            faker.seed_instance(chance.random.getrandbits(64))
            provider = getattr(faker, draw.provider)
            _check_arguments(provider, draw)
            try:
                today = _defaults_of(provider, self._start) if not draw.args else {}
                return plain(provider(*draw.args, **{**today, **draw.options}))
            except Exception as problem:
                detail = f"{type(problem).__name__}: {problem}"
                raise FakeInvalid(f"Faker's `{draw.provider}` failed: {detail}") from problem

    def faker(self, locale: str) -> Any:
        """Return Faker in a language; raise FakeInvalid for an unknown one."""
        from faker import Faker

        if locale not in self._fakers:
            check_locale(locale)
            self._fakers[locale] = Faker(locale) if locale else Faker()
        return self._fakers[locale]


class Fakes(Mapping[str, Any]):
    """``${fake.name}``: one name gives one word a scenario; ``${fake.name[1]}`` gives another.

    ``${fake.random_int(1, 6)}`` has arguments in Python syntax; ``${fake.de_DE.city}`` has a
    language; ``${fake.unique.city[1]}`` certainly differs from ``${fake.unique.city[0]}``. Faker's
    today is the scenario's start.
    """

    def __init__(self, words: Words, chance: Chance) -> None:
        self._words, self._chance = words, chance
        self._values_drawn: dict[str, Any] = {}
        self._drawn_by_kind: dict[str, set[str]] = {}
        """For each unique reference, the words drawn so far."""

    def __getitem__(self, key: str) -> Any:
        """Return a word; raise KeyError for an unknown provider, FakeInvalid for its arguments."""
        if key not in self._values_drawn:
            self._values_drawn[key] = self._draw_value(read(key))
        return self._values_drawn[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values_drawn)

    def __len__(self) -> int:
        return len(self._values_drawn)

    def known(self) -> tuple[str, ...]:
        """Return the providers' names."""
        return self._words.known()

    def _draw_value(self, draw: Draw) -> Any:
        if not draw.unique:
            return self._words.drawn(draw, self._chance.child(draw.name))
        if draw.number >= _MOST:
            raise FakeInvalid(f"at most {_MOST:,} words are told apart: `[{draw.number}]`")
        for number in range(draw.number + 1):
            numbered_draw = msgspec.structs.replace(draw, number=number)
            if numbered_draw.name not in self._values_drawn:
                self._values_drawn[numbered_draw.name] = self._untaken(numbered_draw)
        return self._values_drawn[draw.name]

    def _untaken(self, draw: Draw) -> Any:
        """Return a word that was not drawn for this reference before."""
        values_drawn = self._drawn_by_kind.setdefault(draw.question, set())
        for attempt in range(_TRIES):
            word = self._words.drawn(draw, self._chance.child(draw.name).child(str(attempt)))
            if repr(word) not in values_drawn:
                values_drawn.add(repr(word))
                return word
        raise FakeInvalid(
            f"Faker's `{draw.question}` has no other word than the {len(values_drawn)} that are "
            "there"
        )


def read(key: str) -> Draw:
    """Return the parsed reference; raise KeyError or FakeInvalid."""
    match = _DRAW.match(key)
    if match is None:
        raise KeyError(key)
    args, options = _arguments(match["arguments"] or "()")
    return Draw(
        provider=match["provider"],
        locale=match["locale"] or "",
        args=args,
        options=options,
        number=int(match["number"] or 0),
        unique=match["unique"] is not None,
    )


def provider_in(key: str) -> str:
    """Return the provider's name in a reference; an unreadable one is returned whole."""
    match = _DRAW.match(key)
    return key if match is None else match["provider"]


def check_locale(locale: str) -> None:
    """Raise FakeInvalid for a language that Faker does not have; an empty text is the default."""
    if locale and locale not in _locales():
        raise FakeInvalid(f"Faker has no locale `{locale}`", near(locale, _locales()))


@lru_cache(maxsize=1)
def _locales() -> frozenset[str]:
    from faker.config import AVAILABLE_LOCALES

    return frozenset(AVAILABLE_LOCALES)


def _check_arguments(provider: Callable[..., Any], draw: Draw) -> None:
    """Raise FakeInvalid for arguments that a provider does not take."""
    parameters = inspect.signature(provider).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in draw.options:
        if name not in parameters:
            raise FakeInvalid(
                f"Faker's `{draw.provider}` takes no `{name}`",
                near(name, parameters),
                tuple(parameters),
            )


def _arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import ast

    try:
        call = ast.parse(f"f{text}", mode="eval").body
        # `(1)(2)` and `(**{…})` are Python too, and a part of them would be lost.
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        assert all(keyword.arg for keyword in call.keywords)
        args = tuple(map(ast.literal_eval, call.args))
        return args, {
            str(call_keyword.arg): ast.literal_eval(call_keyword.value)
            for call_keyword in call.keywords
        }
    except (AssertionError, SyntaxError, ValueError):
        raise FakeInvalid(
            f"`{text}` must be arguments as Python writes them: (1, 6), (max_value=9.5), "
            '(elements=("a", "b"))'
        ) from None


def _defaults_of(provider: Callable[..., Any], start: datetime) -> dict[str, Any]:
    """Return the arguments that would otherwise default to the day on which Faker was imported."""
    return {
        name: start.date()
        for name, parameter in inspect.signature(provider).parameters.items()
        if type(parameter.default) is date
    }


def _is_provider(faker: Any, name: str) -> bool:
    """Return whether a name is a provider that gives a word."""
    from faker.providers import BaseProvider

    if name.startswith("_"):
        return False
    try:
        method = getattr(faker, name, None)
    except TypeError:  # An attribute that Faker has on its class only.
        return False
    return isinstance(getattr(method, "__self__", None), BaseProvider)


def plain(value: Any) -> Any:
    """Return a word as plain data, the same in every process."""
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

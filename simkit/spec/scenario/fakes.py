"""Words of Faker's, and the people and things that a scenario makes up of them.

They are drawn from the seed, so that they are the same in every run. A person or thing keeps its
values wherever it is referred to.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import FakeInvalid
from simkit.core.rng import Chance
from simkit.core.text import late_pattern
from simkit.language.paths import with_parts
from simkit.language.yaml import near
from simkit.spec.scenario.model import Fake

_DRAW: Final = late_pattern(
    r"^(?:(?P<locale>[a-z]{2,3}(?:_[A-Z]{2})?)\.)?(?P<unique>unique\.)?(?P<provider>[A-Za-z_]\w*)"
    r"(?P<arguments>\(.*\))?(?:\[(?P<number>\d+)\])?$",
    re.DOTALL,
)
MOST: Final = 1_000
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
        if draw.number >= MOST:
            raise FakeInvalid(f"at most {MOST:,} words are told apart: `[{draw.number}]`")
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
    if not locale:
        return
    from faker.config import AVAILABLE_LOCALES

    if locale not in AVAILABLE_LOCALES:
        raise FakeInvalid(f"Faker has no locale `{locale}`", near(locale, AVAILABLE_LOCALES))


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
        return [plain(inner) for inner in islice(value, MOST)]
    if isinstance(value, type):
        return value.__qualname__
    if getattr(type(value), "__repr__", None) is object.__dict__["__repr__"]:
        return type(value).__qualname__
    return str(value)


BASICS: Final = (
    "name", "first_name", "last_name", "email", "phone_number", "street_address", "postcode",
    "city", "address",
)  # fmt: skip
"""The values of a person without own values, as a whole."""
_NAMED: Final = ("name", "first_name", "last_name", "email")
_PLAIN_NAME: Final = late_pattern(r"\{\{(?:first|last)_name\w*\}\} ?\{\{(?:first|last)_name\w*\}\}")
_TOKEN: Final = late_pattern(r"\{\{(\w+)\}\}")
_NAME_TRIES: Final = 50
"""The number of draws for a name that is not taken yet."""


Fill: TypeAlias = Callable[[str, Any, Mapping[str, Any]], Any]
"""Resolves the references of one value, given its name, its person and the root."""


class TakenNames:
    """The names and words of others in the scenario."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.addresses: set[str] = set()
        self.words: dict[str, set[str]] = {}


class Persona(Fakes):
    """One person or thing; each word of Faker's has one value.

    Name and e-mail address fit together, and so do the address and its parts. As a whole it is its
    given values or, without any, its BASICS.
    """

    def __init__(
        self,
        words: Words,
        chance: Chance,
        locale: str,
        names_taken: TakenNames,
        values: Mapping[str, Any],
        fill: Fill,
    ) -> None:
        super().__init__(words, chance)
        self._locale, self._others = locale, names_taken
        self._drawn_by_kind = names_taken.words
        self._own: dict[str, Any] = {}
        self._is_made = False
        for name, value in values.items():
            self._own[name] = fill(name, value, {"fake": self})
        self._values_drawn.update(self._own)
        # Reserve the name, so that nobody made up later gets it.
        self["email"]
        self._is_made = True

    def __getitem__(self, key: str) -> Any:
        """Return a value of its own, or a word; raise KeyError or FakeInvalid."""
        if key in self._own:
            return self._own[key]
        if key not in self._values_drawn:
            if key in _NAMED:
                self._values_drawn.update({**self._person(), **self._own})
            elif key == "address":
                self._values_drawn[key] = self._address()
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own or BASICS)

    def __len__(self) -> int:
        return len(self._own or BASICS)

    def known(self) -> tuple[str, ...]:
        """Return its keys and the providers' names."""
        return tuple(dict.fromkeys((*self._own, *BASICS, *self._words.known(self._locale))))

    def _draw_value(self, draw: Draw) -> Any:
        if draw.unique and self._is_made:
            raise FakeInvalid("`unique` stands under `values`, where it is told what comes first")
        locale = draw.locale or self._locale
        return super()._draw_value(msgspec.structs.replace(draw, locale=locale))

    def _drawn(self, provider: str, chance: Chance) -> Any:
        return self._words.drawn(Draw(provider=provider, locale=self._locale), chance)

    def _person(self) -> dict[str, str]:
        """Return an unused name, its parts, and the address made from it."""
        if isinstance(own_name := self._own.get("name"), str):
            first, _, last = own_name.partition(" ")
            return self._reachable({"name": own_name, "first_name": first, "last_name": last})
        for attempt in range(_NAME_TRIES):
            named = self._named(self._chance.child(f"name/{attempt}"))
            if named["name"] not in self._others.names and (
                self._mailbox(named) not in self._others.addresses
            ):
                break
        return self._reachable(named)

    def _named(self, chance: Chance) -> dict[str, str]:
        """Return a name and its parts, in the order and of the gender that Faker gives it."""
        formats = getattr(self._provider("name"), "formats", ())
        simple_formats = [
            format
            for format in formats
            if _PLAIN_NAME.fullmatch(format) and format.count("{{first") == 1
        ]
        if not simple_formats:
            name = str(self._drawn("name", chance))
            return {"name": name, "first_name": name.split()[0], "last_name": name.split()[-1]}
        pattern = chance.random.choice(simple_formats)
        parts: dict[str, str] = {}
        for token in _TOKEN.findall(pattern):
            kind = "first_name" if token.startswith("first") else "last_name"
            word = self._own.get(kind)
            parts[kind] = word if isinstance(word, str) else self._drawn(token, chance.child(token))
        name = _TOKEN.sub(lambda at: parts[f"{at[1].split('_')[0]}_name"], pattern)
        return {"name": name, **parts}

    def _reachable(self, named: dict[str, str]) -> dict[str, str]:
        """Return a name with its own, unused e-mail address."""
        mailbox = base = self._mailbox(named)
        number = 1
        while mailbox in self._others.addresses:
            number += 1
            mailbox = f"{base}{number}"
        self._others.names.add(named["name"])
        self._others.addresses.add(mailbox)
        domain = self._chance.child("email").random.choice(("com", "net", "org"))
        return {**named, "email": f"{mailbox}@example.{domain}"}

    def _mailbox(self, named: Mapping[str, str]) -> str:
        """Return a name in the letters that are valid before the @."""
        from faker.decode import unidecode

        parts = []
        for part in (named["first_name"], named["last_name"]):
            for letter, replacement in getattr(self._provider("user_name"), "replacements", ()):
                part = part.replace(letter, replacement)
            parts.append(re.sub(r"[^a-z0-9-]+", "", unidecode(part).lower()).strip("-"))
        return ".".join(filter(None, parts)) or "somebody"

    def _address(self) -> str:
        """Return an address made from its own street, postcode and city."""
        formats = getattr(self._provider("address"), "address_formats", ())
        matching = [
            format
            for format in formats
            if {"street_address", "city", "postcode"} <= set(_TOKEN.findall(format))
        ]
        pattern = matching[0] if matching else "{{street_address}}\n{{postcode}} {{city}}"
        return _TOKEN.sub(lambda at: str(self[at[1]]), pattern)

    def _provider(self, name: str) -> Any:
        """Return Faker's provider that has a method of this name."""
        return getattr(self._words.faker(self._locale), name).__self__


Person: TypeAlias = Persona | list[Persona]


def made_up(
    name: str, fake: Fake, words: Words, seed: int, names_taken: TakenNames, fill: Fill
) -> Person:
    """Return the person or list for an entry; raise FakeInvalid for an unknown language."""
    locale = fake.locale.replace("-", "_")
    check_locale(locale)
    above = Chance(seed).child("fakes").child(name)
    some = [
        Persona(words, above.child(str(index)), locale, names_taken, fake.values, fill)
        for index in range(fake.count or 1)
    ]
    return some[0] if fake.count is None else some


def written_out(value: Any) -> Any:
    """Return a value with made-up people and things as plain data."""
    if isinstance(value, Persona):
        return {key: value[key] for key in value}
    return with_parts(value, written_out)

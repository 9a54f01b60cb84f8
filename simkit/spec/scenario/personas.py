"""People and things that a scenario makes up: each keeps its values wherever it is referred to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from simkit.core.errors import FakeInvalid
from simkit.core.rng import Chance
from simkit.core.text import late_pattern
from simkit.spec.scenario.fakes import Draw, Fakes, Words, check_locale
from simkit.spec.scenario.given_fakes import Fake

BASICS: Final = (
    "name",
    "first_name",
    "last_name",
    "email",
    "phone_number",
    "street_address",
    "postcode",
    "city",
    "address",
)
"""The values of a person without own values, as a whole."""
_NAMED: Final = ("name", "first_name", "last_name", "email")
_PLAIN_NAME: Final = late_pattern(r"\{\{(?:first|last)_name\w*\}\} ?\{\{(?:first|last)_name\w*\}\}")
_TOKEN: Final = late_pattern(r"\{\{(\w+)\}\}")
_TRIES: Final = 50
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
        return super()._draw_value(self._in_locale(draw))

    def _in_locale(self, draw: Draw) -> Draw:
        return Draw(
            provider=draw.provider,
            locale=draw.locale or self._locale,
            args=draw.args,
            options=draw.options,
            number=draw.number,
            unique=draw.unique,
        )

    def _drawn(self, provider: str, chance: Chance) -> Any:
        return self._words.drawn(Draw(provider=provider, locale=self._locale), chance)

    def _person(self) -> dict[str, str]:
        """Return an unused name, its parts, and the address made from it."""
        if isinstance(own_name := self._own.get("name"), str):
            first, _, last = own_name.partition(" ")
            return self._reachable({"name": own_name, "first_name": first, "last_name": last})
        for attempt in range(_TRIES):
            named = self._named(self._chance.child(f"name/{attempt}"))
            if named["name"] not in self._others.names and (
                self._mailbox(named) not in self._others.addresses
            ):
                break
        return self._reachable(named)

    def _named(self, chance: Chance) -> dict[str, str]:
        """Return a name and its parts, in the order and of the gender that Faker gives it."""
        formats = getattr(self._provider("name"), "formats", ())
        plain = [
            format
            for format in formats
            if _PLAIN_NAME.fullmatch(format) and format.count("{{first") == 1
        ]
        if not plain:
            name = str(self._drawn("name", chance))
            return {"name": name, "first_name": name.split()[0], "last_name": name.split()[-1]}
        pattern = chance.random.choice(plain)
        parts: dict[str, str] = {}
        for token in _TOKEN.findall(pattern):
            kind = "first_name" if token.startswith("first") else "last_name"
            own = self._own.get(kind)
            parts[kind] = own if isinstance(own, str) else self._drawn(token, chance.child(token))
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
        Persona(words, above.child(str(place)), locale, names_taken, fake.values, fill)
        for place in range(fake.count or 1)
    ]
    return some[0] if fake.count is None else some


def written_out(value: Any) -> Any:
    """Return a value with made-up people and things as plain data."""
    if isinstance(value, Persona):
        return {key: value[key] for key in value}
    if isinstance(value, dict):
        return {key: written_out(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [written_out(inner) for inner in value]
    return value

"""Faker's words in scenarios: drawn from the seed, so that they are the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.chance import Chance

_DRAW: Final = re.compile(r"^(?P<provider>[a-z_][a-z0-9_]*)(?:\[(?P<number>\d+)\])?$")
_PRIVATE: Final = ("seed", "random", "provider", "generator", "parse", "format", "unique")


class Fakes(Mapping[str, Any]):
    """``${fake.name}``: one name gives one word a scenario; ``${fake.name[1]}`` gives another."""

    def __init__(self, seed: int) -> None:
        from faker import Faker

        self._chance = Chance(seed).child("fake")
        self._faker = Faker()
        self._made: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._made:
            found = _DRAW.match(key)
            if found is None or found["provider"].startswith(_PRIVATE):
                raise KeyError(key)
            provider = getattr(self._faker, found["provider"], None)
            if not callable(provider):
                raise KeyError(key)
            draw = self._chance.child(f"{found['provider']}[{found['number'] or 0}]")
            self._faker.seed_instance(draw.random.getrandbits(64))
            self._made[key] = _plain(provider())
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def known(self) -> tuple[str, ...]:
        """The providers' names."""
        return tuple(
            name
            for name in dir(self._faker)
            if not name.startswith(("_", *_PRIVATE)) and _DRAW.match(name)
        )


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)

"""What a scenario says of the people and things that it makes up: `given: {fakes: …}`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from simkit.spec.fields import Positive, TextValue, YamlModel, refuse, shown_value

MOST: Final = 1_000
"""How many of one name there may be."""


class Fake(YamlModel):
    """Somebody or something that is made up; `customer.email` and the like refer to it.

    A number alone is `count`, a text alone `locale`.
    """

    count: Positive | None = None
    """So many of them, as a list, `${customers[0].name}`; without it, it is one."""
    locale: TextValue = ""
    """The language and country of its words: `de_DE`."""
    values: dict[str, Any] = Field(default_factory=dict)
    """What it is, beside what Faker says of it; `${fake.…}` in here are its own words."""


def _fake(value: Any) -> Any:
    if isinstance(value, (bool, list, float)) or value is None:
        raise refuse(
            f"what is made up must be how many, a locale or a mapping, not {shown_value(value)}",
            advice="Write `customers: 3`, `customer: de_DE`, or `customer: {}`.",
        )
    if not isinstance(value, dict):
        value = {"count" if isinstance(value, int) else "locale": value}
    count = value.get("count")
    if isinstance(count, int) and count > MOST:
        raise refuse(f"at most {MOST:,} are made up, not {count:,}")
    return value


class _Short:
    """Says in the JSON Schema that a number or a text may stand for the mapping."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}, handler(core_schema)]
        }


FakeValue = Annotated[Fake, BeforeValidator(_fake), _Short]

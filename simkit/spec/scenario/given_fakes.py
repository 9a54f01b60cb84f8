"""The people and things that a scenario makes up: `given: {fakes: …}`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from simkit.spec.fields import Positive, TextValue, YamlModel, refuse, shown_value

MOST: Final = 1_000
"""The largest number of one name."""


class Fake(YamlModel):
    """A made-up person or thing; `customer.email` and the like refer to it.

    A plain number is `count`, a plain text `locale`.
    """

    count: Positive | None = None
    """Their number, for a list `${customers[0].name}`; without it, a single one."""
    locale: TextValue = ""
    """The language and country of its words: `de_DE`."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Values of its own beside Faker's; `${fake.…}` in them are its own words."""


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
    """Adds to the JSON Schema that a number or a text may replace the mapping."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}, handler(core_schema)]
        }


FakeValue = Annotated[Fake, BeforeValidator(_fake), _Short]

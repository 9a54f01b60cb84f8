"""The rules of providers' prompt caches: a table with sources, `caching.yaml`."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import msgspec


class CachingRule(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The rule by which a provider reuses a request that begins as an earlier one."""

    provider: str
    models: str
    """A regular expression that is found in the names of its models."""
    least: int
    """The number of tokens from which anything is reused."""
    source: str
    """The address of the page that says it."""
    seconds: int = 0
    """How long an unused request is kept at least; 0 if nobody says it."""
    lookback: int = 20
    """How many blocks before its own mark a request finds an earlier one's."""
    step: int = 1
    """The number of tokens in whose multiples it is reused."""
    ends: Literal["anywhere", "request", "marks"] = "anywhere"
    """Where the reused front may end: anywhere, at the end of an earlier request, or where the
    application marked it (``cache_control``)."""
    note: str = ""

    def reused(self, tokens: int) -> int:
        """Return how many of the tokens of a front are reused."""
        return tokens // self.step * self.step if tokens >= self.least else 0


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    date: str
    rules: tuple[CachingRule, ...]


_TABLE: Final = msgspec.yaml.decode(
    Path(__file__).with_name("caching.yaml").read_bytes(), type=_Table, strict=False
)
CACHING_RULES: Final = _TABLE.rules
CACHING_DATE: Final = _TABLE.date
"""The day on which the sources said so."""
LEAST: Final = 1024
"""The smallest front that most providers reuse, for models that the table does not have."""


@lru_cache(maxsize=64)
def caching_rule(model: str) -> CachingRule | None:
    """Return the rule for a model, by its name in requests; None for an unknown one."""
    return next((rule for rule in CACHING_RULES if re.search(rule.models, model.lower())), None)

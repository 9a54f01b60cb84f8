"""Regular expressions that are compiled when they are first used: a command uses few of all."""

from __future__ import annotations

import re
from typing import Any, cast


class _Later:
    """An expression that becomes a compiled one, method by method."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        # From now on it is found without this call.
        setattr(self, name, value)
        return value


def late_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the expression; an invalid one is an error where it is first used."""
    return cast("re.Pattern[str]", _Later(text, flags))

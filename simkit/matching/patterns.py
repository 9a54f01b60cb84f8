"""The literal texts of a matcher: a negative claim proves something only if they can occur."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.matching.values import source_text

_TEXTLESS: Final = frozenset({"$type", "$len", "$schema", "$keys", "$any", "$absent"})


def patterns_of(matcher: Any) -> tuple[str, ...]:
    """Returns the texts and numbers that a matcher looks for, each once, in their order.

    A regular expression counts if it is plain text; any other has no text of its own to give.
    Booleans, null and keys are not among them.
    """
    return tuple(dict.fromkeys(_patterns(matcher)))


def _patterns(matcher: Any) -> Iterator[str]:
    if isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key == "$regex":
                if isinstance(operand, str) and re.escape(operand) == operand:
                    yield operand
            elif key not in _TEXTLESS:
                yield from _patterns(operand)
    elif isinstance(matcher, (list, tuple)):
        for inner in matcher:
            yield from _patterns(inner)
    elif matcher is not None and not isinstance(matcher, bool):
        yield source_text(matcher)

"""Tools that query a channel: an agent reads the part of the state that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.core.messages import ABSENT, JsonValue
from simkit.language.paths import lookup
from simkit.language.yaml import near
from simkit.runtime.context.rendering import plain
from simkit.runtime.ports import ToolReply

QUERY_ARGS: Final[JsonValue] = {
    "type": "object",
    "required": ["path"],
    "properties": {"path": {"type": "string"}},
    "additionalProperties": False,
}
"""The arguments of such a tool: a path into the channel's value; an empty path returns all of
it."""
NAMES_MAX: Final = 12
"""The number of keys in an error."""


def looked_up(channel: str, value: Any, args: Any) -> ToolReply:
    """Return the value at ``args["path"]`` of a channel, or an error with the existing keys."""
    path = str(args.get("path", "")) if isinstance(args, Mapping) else ""
    value_there = lookup(value, path) if path else value
    if value_there is not ABSENT:
        return ToolReply(plain(value_there))
    known = list(_paths(value))
    nearest = near(path, known)
    hint = f" Did you mean `{nearest}`?" if nearest else ""
    names_text = ", ".join(known[:NAMES_MAX]) or "nothing"
    if len(known) > NAMES_MAX:
        names_text += f", … {len(known) - NAMES_MAX} more"
    return ToolReply(error=f"nothing is at `{path}` in `{channel}`.{hint} There is: {names_text}")


def _paths(value: Any, above: str = "", depth: int = 2) -> Iterator[str]:
    """Yield the paths of a value's first levels."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            path = f"{above}.{key}" if above else str(key)
            yield path
            if depth > 1:
                yield from _paths(inner, path, depth - 1)
    elif isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        yield f"{above}[0]"

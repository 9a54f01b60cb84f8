"""What each built-in section says, as text: pure functions of the root and the options."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from simkit.context.tokens import Counter
from simkit.matching import holds
from simkit.messages import ABSENT, JsonValue, Message
from simkit.paths import Part, follow, lookup, parse
from simkit.pipeline.recipe import HandoffSection, PreviousAgents, Recall
from simkit.trace import canonical

Root = Mapping[str, Any]
"""What references and ``when`` see: state, run, handoff, user, agent, now, input."""

MEMORIES_HEADING: Final = "# Relevant Long-Term Memories"
PREVIOUS_HEADING: Final = "# Context from Previous Agents"
DAY: Final = timedelta(days=1)

_encode = msgspec.json.Encoder().encode


def json_text(value: Any, indent: int = 0) -> str:
    """Returns a value as JSON text, in the order of its keys."""
    encoded = _encode(plain(value))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def plain(value: Any) -> JsonValue:
    """Returns a value with messages as ``{role, content}``."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return canonical(value)


def text_form(value: Any) -> str:
    """Returns a text as it is, a message's content, and anything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.content
    return json_text(value)


def shortened(value: Any, preview: Mapping[str, int] | None) -> Any:
    """Returns a value in which the text at each path is cut to its number of characters."""
    if not preview:
        return value
    for path, characters in preview.items():
        parts = (path,) if isinstance(value, Mapping) and path in value else parse(path)
        found = follow(value, parts)
        if found is not ABSENT and found is not None:
            value = _with(value, parts, text_form(found)[:characters])
    return value


def _with(value: Any, parts: Sequence[Part], new: str) -> Any:
    """Returns a copy of the value in which ``new`` stands at a path that is there."""
    if isinstance(value, Message):
        value = plain(value)
    head, *rest = parts
    inner = _with(value[head], rest, new) if rest else new
    if isinstance(head, str):
        return {**value, head: inner}
    changed = list(value)
    changed[head] = inner
    return changed


def handoff_text(root: Root, options: HandoffSection) -> str:
    """The payload as JSON, or the fields that are there, one a line."""
    handoff = root.get("handoff")
    if handoff is None:
        return ""
    shown = shortened(handoff, options.preview)
    if options.fields is None:
        payload = shown.get("payload")
        return "" if payload is None else json_text(payload)
    lines = []
    for label, path in options.fields.items():
        found = lookup(shown, path)
        if found is not ABSENT and found is not None:
            lines.append(f"- {label}: {text_form(found)}")
    return "\n".join(lines)


def previous_agents_text(root: Root, options: PreviousAgents) -> str:
    """The other agents' summaries and tool results, in the form of reference system 1."""
    outputs = shortened(root["state"].get(options.from_ or "agent_outputs"), options.preview)
    if not isinstance(outputs, Mapping):
        return ""
    parts = []
    for name, output in outputs.items():
        if name == root["agent"]:
            continue
        parts.append(f"## {name}:\n{_summary(output)[: options.truncate]}")
        results = output.get("tool_results") if isinstance(output, Mapping) else None
        if options.structured_data and results:
            parts.append(f"**Structured Data:**\n```json\n{json_text(results)}\n```")
    return "\n".join([PREVIOUS_HEADING, *parts]) if parts else ""


def _summary(output: Any) -> str:
    if isinstance(output, Mapping):
        for key in ("reply", "content", "output"):
            if output.get(key) is not None:
                return text_form(output[key])
    return text_form(output)


def recalled(root: Root, options: Recall, channel: str, count: Counter) -> list[Mapping[str, Any]]:
    """The items of a channel that pass tags, age, ranges and score, in order, within the budget."""
    items = [_as_item(item) for item in root["state"].get(channel) or ()]
    query = _query(root)
    now: datetime = root["now"]
    ranges = options.time_ranges
    chosen: list[tuple[float, datetime, int, Mapping[str, Any]]] = []
    for place, item in enumerate(items):
        at = moment(item.get("at"))
        score = score_of(item, query)
        if options.tags is not None and not set(options.tags) & set(item.get("tags") or ()):
            continue
        if options.since_days is not None and (
            at is None or not now - options.since_days * DAY <= at <= now
        ):
            continue
        if ranges and (at is None or not any(_within(at, one) for one in ranges)):
            continue
        if options.threshold is not None and (score is None or score < options.threshold):
            continue
        chosen.append((score or 0.0, at or datetime.min.replace(tzinfo=UTC), place, item))
    most = options.top if options.top is not None else options.max
    order = options.order or ("score" if options.top is not None else "newest_first")
    if options.top is not None:
        chosen.sort(key=lambda row: (-row[0], row[2]))
        chosen = chosen[:most]
    chosen.sort(key=_ORDERS[order])
    return _within_budget([item for *_, item in chosen[:most]], options.tokens, count)


_ORDERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "score": lambda row: (-row[0], row[2]),
    "newest_first": lambda row: (-row[1].timestamp() if row[1].year > 1 else 0.0, -row[2]),
    "oldest_first": lambda row: (row[1].timestamp() if row[1].year > 1 else 0.0, row[2]),
}


def _as_item(item: Any) -> Mapping[str, Any]:
    if isinstance(item, Message):
        return {"text": item.content, "agent": item.agent}
    return item if isinstance(item, Mapping) else {"text": text_form(item)}


def _query(root: Root) -> str:
    handoff = root.get("handoff")
    if handoff is not None and handoff.get("query"):
        return str(handoff["query"])
    return text_form(root["user"])


def score_of(item: Mapping[str, Any], query: str) -> float | None:
    """An item's score: its number, or the first rule's that holds of the query; None if none."""
    score = item.get("score")
    if isinstance(score, Sequence) and not isinstance(score, str):
        for rule in score:
            if rule.get("when") is None or holds(rule["when"], query):
                return float(rule["score"])
        return None
    return None if score is None else float(score)


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def moment(value: Any) -> datetime | None:
    """Returns an ISO 8601 text as a time in UTC if it names no zone; None if it is none."""
    return _moment(value) if isinstance(value, str) else None


def _within(at: datetime, span: Any) -> bool:
    start, end = _bound(span, "from", "start"), _bound(span, "to", "end")
    first = moment(start) if start is not None else None
    last = moment(end) if end is not None else None
    if last is not None and isinstance(end, str) and _is_date(end):
        last = last + DAY - timedelta(microseconds=1)
    return (first is None or first <= at) and (last is None or at <= last)


def _bound(span: Any, *keys: str) -> Any:
    if not isinstance(span, Mapping):
        return None
    return next((span[key] for key in keys if span.get(key) is not None), None)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _within_budget(
    items: list[Mapping[str, Any]], budget: int | None, count: Counter
) -> list[Mapping[str, Any]]:
    if budget is None:
        return items
    chosen = []
    for item in items:
        budget -= count(text_form(item.get("text", item)))
        if budget < 0:
            break
        chosen.append(item)
    return chosen


def note_line(item: Mapping[str, Any]) -> str:
    """``[2026-01-04] (nutrition): Prefers metric units``, the form of reference system 1."""
    at = moment(item.get("at"))
    day = f"[{at.date().isoformat()}] " if at else ""
    agent = f"({item['agent']}): " if item.get("agent") else ""
    return f"{day}{agent}{text_form(item.get('text', item))}"


def item_line(item: Mapping[str, Any]) -> str:
    """``- text``."""
    return f"- {text_form(item.get('text', item))}"


_SPEAKERS: Final = {"user": "User", "assistant": "AI", "tool": "Tool", "system": "System"}


def conversation_text(messages: Sequence[Message]) -> str:
    """``User: …`` and ``AI: …``, a line a message: the form of reference system 4."""
    return "\n".join(f"{_SPEAKERS[m.role]}: {m.content}" for m in messages)

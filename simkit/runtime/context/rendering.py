"""Texts of the built-in sections, and their sizes: pure functions of the root and the options."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from simkit.core.errors import ReferenceInvalid, Unsupported
from simkit.core.messages import ABSENT, JsonValue, Message
from simkit.core.requirements import install_command
from simkit.language.paths import Part, follow, lookup, parse, parts_of
from simkit.language.yaml import SourcePath, path_text
from simkit.spec.pipeline.model import BUILT_IN_COUNTER
from simkit.spec.pipeline.recipe import HandoffSection, PreviousAgents
from simkit.trace.store import canonical

Root = Mapping[str, Any]
"""The values for references and ``when``: state, run, handoff, user, agent, input, task,
upstream, and ``now``, the virtual time in ISO 8601."""

MEMORIES_HEADING: Final = "# Relevant Long-Term Memories"
PREVIOUS_HEADING: Final = "# Context from Previous Agents"

_encode = msgspec.json.Encoder().encode
_SCALARS: Final = frozenset((str, int, bool, type(None)))


def json_text(value: Any, indent: int = 0) -> str:
    """Return a value as JSON text, in the order of its keys."""
    encoded = _encode(plain(value))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def fenced(value: Any) -> str:
    """Return a value as an indented block of JSON, as reference system 3 shows its context."""
    return f"```json\n{json_text(value, indent=2)}\n```"


def plain(value: Any) -> JsonValue:
    """Return a value with messages as ``{role, content}``."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(item) for item in value]
    return canonical(value)


def text_form(value: Any) -> str:
    """Return a text as it is, a message's content, and any other value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Message):
        return value.content
    return json_text(value)


class Loss(NamedTuple):
    """A part of a value that was cut off before it was shown."""

    path: str
    by: str
    """The option that cut it."""
    items: int = 0
    """The number of items cut off the list at the path."""
    characters: int = 0
    """The number of characters cut off the text at the path."""


def shortened(
    value: Any, preview: Mapping[str, int] | None, paths_kept: Iterable[str] | None = None
) -> tuple[Any, list[Loss]]:
    """Return a value with the text at each path cut to its number of characters.

    A loss is reported if its path is in ``paths_kept``; if that is None, always.
    """
    losses: list[Loss] = []
    if not preview:
        return value, losses
    for path, most in preview.items():
        parts = (path,) if isinstance(value, Mapping) and path in value else parse(path)
        value_there = follow(value, parts)
        if value_there is ABSENT or value_there is None:
            continue
        text = text_form(value_there)
        value = _with(value, parts, text[:most])
        if len(text) > most and (
            paths_kept is None or any(_meets(path, kept_path) for kept_path in paths_kept)
        ):
            losses.append(Loss(path, "preview", characters=len(text) - most))
    return value, losses


def joined(head: str, path: str) -> str:
    """Return the concatenation of two paths."""
    return head + path if path.startswith("[") else f"{head}.{path}"


def _meets(path: str, other: str) -> bool:
    """Return whether one of two paths is a prefix of the other."""
    return all(a == b for a, b in zip(_read(path), _read(other), strict=False))


def _read(path: str) -> Sequence[Part]:
    try:
        return parse(path)
    except ReferenceInvalid:
        return (path,)


def _with(value: Any, parts: Sequence[Part], new: str) -> Any:
    """Return a copy of the value with ``new`` at an existing path."""
    if isinstance(value, Message):
        value = plain(value)
    head, *rest = parts
    inner = _with(value[head], rest, new) if rest else new
    if isinstance(head, str):
        return {**value, head: inner}
    changed = list(value)
    changed[head] = inner
    return changed


def handoff_text(root: Root, options: HandoffSection) -> tuple[str, list[Loss]]:
    """Return the payload as JSON, or its existing fields, one a line; and the losses."""
    handoff = root.get("handoff")
    if handoff is None:
        return "", []
    paths = ("payload",) if options.fields is None else options.fields.values()
    preview_value, losses = shortened(handoff, options.preview, paths)
    if options.fields is None:
        payload = preview_value.get("payload")
        return ("", []) if payload is None else (json_text(payload), losses)
    lines = []
    for label, path in options.fields.items():
        value_there = lookup(preview_value, path)
        if value_there is not ABSENT and value_there is not None:
            lines.append(f"- {label}: {text_form(value_there)}")
    return "\n".join(lines), losses


def previous_agents_text(root: Root, options: PreviousAgents) -> tuple[str, list[Loss]]:
    """Return the other agents' summaries and tool results, in the form of reference system 1."""
    outputs = root["state"].get(options.from_ or "agent_outputs")
    if not isinstance(outputs, Mapping):
        return "", []
    others = [name for name in outputs if name != root["agent"]]
    outputs, losses = shortened(outputs, options.preview, others)
    parts = []
    for name in others:
        output = outputs[name]
        summary = _summary(output)
        if options.truncate is not None and len(summary) > options.truncate:
            cut = len(summary) - options.truncate
            losses.append(Loss(path_text((name,)), "truncate", characters=cut))
        parts.append(f"## {name}:\n{summary[: options.truncate]}")
        results = output.get("tool_results") if isinstance(output, Mapping) else None
        if options.structured_data and results:
            parts.append(f"**Structured Data:**\n```json\n{json_text(results)}\n```")
    return ("\n".join([PREVIOUS_HEADING, *parts]), losses) if parts else ("", [])


def _summary(output: Any) -> str:
    if isinstance(output, Mapping):
        for key in ("reply", "content", "output"):
            if output.get(key) is not None:
                return text_form(output[key])
    return text_form(output)


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def moment(value: Any) -> datetime | None:
    """Return an ISO 8601 text as a time, UTC by default; None for an invalid one."""
    return _moment(value) if isinstance(value, str) else None


def note_line(item: Mapping[str, Any]) -> str:
    """Return ``[2026-01-04] (nutrition): Prefers metric units``, the form of reference system 1."""
    at = moment(item.get("at"))
    day = f"[{at.date().isoformat()}] " if at else ""
    agent = f"({item['agent']}): " if item.get("agent") else ""
    return f"{day}{agent}{text_form(item.get('text', item))}"


def item_line(item: Mapping[str, Any]) -> str:
    """Return ``- text``."""
    return f"- {text_form(item.get('text', item))}"


def grouped(lines: Sequence[tuple[str, str]], channels: Sequence[str]) -> list[str]:
    """Return the lines of each channel below its name; without names if there is one channel."""
    if len(channels) == 1:
        return [line for _, line in lines]
    names_found: list[str] = []
    for channel in channels:
        mine = [line for of, line in lines if of == channel]
        names_found += [f"{channel}:", *mine] if mine else []
    return names_found


_SPEAKERS: Final = {"user": "User", "assistant": "AI", "tool": "Tool", "system": "System"}


def conversation_text(messages: Sequence[Message]) -> str:
    """Return ``User: …`` and ``AI: …``, a line a message: the form of reference system 4."""
    return "\n".join(f"{_SPEAKERS[m.role]}: {m.content}" for m in messages)


# Truncation to a budget: lists keep their first items, texts their first characters


CHARACTERS_PER_ITEM: Final = 16
"""The number of characters of a text that are kept for each item of a list."""


def fitted(value: JsonValue, fits: Callable[[JsonValue], bool]) -> tuple[Any, list[Loss]]:
    """Return the largest part of a value that fits, and the losses; ABSENT if nothing fits.

    Every list is cut to its first n items and every text to its first 16·n characters, with the
    greatest n that fits; mappings keep all their keys, so that the result has the value's shape.
    """
    if fits(value):
        return value, []
    most, too_many = 0, _longest(value)
    while most + 1 < too_many:
        middle = (most + too_many) // 2
        if fits(_cut(value, middle, (), [])):
            most = middle
        else:
            too_many = middle
    losses: list[Loss] = []
    if most:
        return _cut(value, most, (), losses), losses
    return ABSENT, [Loss("", "tokens", characters=len(json_text(value)))]


def _longest(value: JsonValue) -> int:
    """Return the number of items at which nothing is cut."""
    if isinstance(value, str):
        return -(-len(value) // CHARACTERS_PER_ITEM)
    inner = max(map(_longest, parts_of(value)), default=0)
    return max(len(value), inner) if isinstance(value, list) else inner


def _cut(value: JsonValue, most: int, at: SourcePath, losses: list[Loss]) -> JsonValue:
    """Return the value with every list cut to ``most`` items; ``losses`` collects the cuts."""
    if isinstance(value, str):
        cut = len(value) - most * CHARACTERS_PER_ITEM
        if cut <= 0:
            return value
        losses.append(Loss(path_text(at), "tokens", characters=cut))
        return value[:-cut]
    if isinstance(value, dict):
        return {key: _cut(inner, most, (*at, key), losses) for key, inner in value.items()}
    if isinstance(value, list):
        if len(value) > most:
            losses.append(Loss(path_text(at), "tokens", items=len(value) - most))
        return [_cut(inner, most, (*at, index), losses) for index, inner in enumerate(value[:most])]
    return value


# Token counters: a pure function of a text, named in the pipeline and in the trace.


Counter = Callable[[str], int]

_BPE: Final = ("o200k_base", "cl100k_base")
"""OpenAI's vocabularies, counted exactly by the package bpe-openai."""
_LENGTH_MAX: Final = 1_000_000
"""The length in characters that bpe-openai refuses."""


def chars_over_four(text: str) -> int:
    """Return one token for every four characters or part of it."""
    return (len(text) + 3) >> 2


def counter_named(name: str) -> Counter:
    """Return the counter; raise Unsupported for an unknown one, or a missing extra."""
    if name == BUILT_IN_COUNTER:
        return chars_over_four
    if name not in _BPE:
        known = ", ".join((BUILT_IN_COUNTER, *_BPE))
        raise Unsupported(f"unknown token counter `{name}`. Known: {known}.")
    return _exact(name)


@lru_cache(maxsize=len(_BPE))
def _exact(name: str) -> Counter:
    """Load a vocabulary, once: it takes a tenth of a second."""
    try:
        package = importlib.import_module("bpe_openai")
    except ImportError:
        raise Unsupported(
            f"token counter `{name}` needs its vocabulary: {install_command('tokens')}"
        ) from None
    with warnings.catch_warnings():
        # It reads its data with a function that Python 3.11 and 3.12 call deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        tokens_in: Callable[[str], list[int]] = package.get_encoding(name).encode_ordinary

    def count(text: str) -> int:
        if len(text) >= _LENGTH_MAX:
            raise Unsupported(
                f"token counter `{name}` counts texts of less than {_LENGTH_MAX:,} characters, "
                f"this one has {len(text):,}. Count with `{BUILT_IN_COUNTER}`."
            )
        # Words such as `<|endoftext|>` in a message are text, as a provider reads them.
        return len(tokens_in(text))

    return count


def tokens_of(message: Message, count: Counter) -> int:
    """Return a message's size in tokens: its content, and the names and arguments of its calls."""
    tokens = count(message.content) if message.content else 0
    for call in message.calls:
        tokens += count(_encode(call.args).decode())
        tokens += _tokens_of_name(call.name, count)
    return tokens


@lru_cache(maxsize=1024)
def _tokens_of_name(name: str, count: Counter) -> int:
    """Return the tokens of a tool's name; a pipeline has few of them."""
    return count(name)

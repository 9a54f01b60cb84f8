"""Attachments and other parts of a message beside its text, and their keys in ``data``.

The keys are the same for every protocol, so that one claim fits all of them::

    parts:      images, documents and files, by reference: an address, or the digest of inline
                bytes; the content shows each as ``[image …]``
    reasoning:  the model's reasoning, as the provider's own parts
    items:      actions of tools that the provider runs, as the provider's own parts
    refusal:    the text in which the model refused; it is the content too
    is_error:   a tool's result is an error
    value:      the text parsed as JSON, if there is also one of the others

A message with none of these whose text is a JSON object or list has that value as its ``data``.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from simkit.core.messages import REASONING as REASONING
from simkit.core.messages import JsonValue, Message, as_json

Extras: TypeAlias = dict[str, Any]

PARTS: Final = "parts"
ITEMS: Final = "items"
REFUSAL: Final = "refusal"
IS_ERROR: Final = "is_error"

_DIGITS: Final = 12


def inline(kind: str, encoded: str, media_type: str, name: str = "") -> Extras:
    """Return a part with its bytes in the request; their digest identifies it."""
    try:
        content = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        content = encoded.encode()
    digest = hashlib.sha256(content).hexdigest()
    return _named({"type": kind, "sha256": digest, "media_type": media_type}, name)


def linked(kind: str, source: str, media_type: str = "", name: str = "") -> Extras:
    """Return a part that the request names by its address or id."""
    part = {"type": kind, "url" if "://" in source else "id": source}
    if media_type:
        part["media_type"] = media_type
    return _named(part, name)


def _named(part: Extras, name: str) -> Extras:
    return {**part, "name": name} if name else part


def placeholder(part: Mapping[str, Any]) -> str:
    """Return the text that stands for a part: ``[image https://…]``, ``[document report.pdf]``."""
    source = part.get("url") or part.get("id") or part.get("name") or ""
    if not source and "sha256" in part:
        source = f"sha256:{part['sha256'][:_DIGITS]}"
    return (
        f"[{part['type']} {source}]" if isinstance(source, str) and source else f"[{part['type']}]"
    )


def added(extras: Extras, key: str, item: JsonValue) -> None:
    """Append an item to the list under a key of the extras."""
    extras.setdefault(key, []).append(item)


def data_of(text: str, extras: Extras) -> JsonValue:
    """Return the ``data`` of an assistant's or a tool's message."""
    value = as_json(text)
    if not extras or value is None:
        return extras or value
    return {"value": value, **extras}


def is_failed(message: Message) -> bool:
    """Return whether a tool's message is a failure, by its provider's marker."""
    data = message.data
    is_marked = isinstance(data, dict) and data.get(IS_ERROR) is True
    return is_marked and data != as_json(message.content)


def parts_in(message: Message, key: str) -> list[Mapping[str, Any]]:
    """Return the provider's own parts under a key of an assistant's message.

    A structured reply may itself have a field such as ``reasoning``; its text shows that.
    """
    data = message.data
    if not isinstance(data, Mapping) or as_json(message.content) == data:
        return []
    items = data.get(key)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []

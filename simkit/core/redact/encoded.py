"""Secrets in an encoding that people do not read: base64, hexadecimal, HTML, UTF-16.

A recorded body may hold one. An encoded text with a secret is replaced as a whole.
"""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
from collections.abc import Callable
from typing import Final

PLACEHOLDER: Final = "[redacted:encoded]"
_BREAK: Final = r"(?:=?(?:\r?\n|\\r?\\n|\\n))"
_BASE64: Final = re.compile(
    rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{16,}}(?:{_BREAK}[ \t]*[A-Za-z0-9+/_-]{{2,}})*={{0,2}}"
)
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{2}){12,}(?![0-9A-Za-z])")
_HTML: Final = re.compile(
    r"(?:[\w.~+/%=:@-]*&(?:#[0-9]+|#[xX][0-9a-fA-F]+|[a-z]+);)+[\w.~+/%=:@-]*"
)
_SOFT_BREAK: Final = re.compile(r"=\r?\n")
_BREAKS: Final = re.compile(rf"{_BREAK}[ \t]*")
_READABLE: Final = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]*")
_PROBE: Final = 96
"""Bytes that show whether a text or a picture is encoded."""


def without_encoded(text: str, redact: Callable[[str], str]) -> str:
    """Return a text in which what hides a secret is replaced; ``redact`` knows plain ones."""

    def replace_secrets(decode: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
        def replacement(match: re.Match[str]) -> str:
            decoded = decode(match[0])
            return PLACEHOLDER if decoded and redact(decoded) != decoded else match[0]

        return replacement

    if "&" in text:
        text = _HTML.sub(replace_secrets(html.unescape), text)
        text = _without(text, html.unescape(text), redact)
    if _SOFT_BREAK.search(text) is not None:
        text = _without(text, _of_mail(text), redact)
    text = _HEX.sub(replace_secrets(_of_hex), text)
    return _BASE64.sub(replace_secrets(_of_base64), text)


def _without(text: str, decoded: str, redact: Callable[[str], str]) -> str:
    """Return a text; if only its decoded form shows a secret, that form without it."""
    redacted = redact(decoded)
    return text if redacted == decoded else redacted


def _of_mail(text: str) -> str:
    encoded = text.encode("utf-8", "surrogateescape")
    return quopri.decodestring(encoded).decode("utf-8", "surrogateescape")


def utf16_of(body: bytes) -> str:
    """Return the codec of a body in UTF-16; empty if it is not in it."""
    head = body[:_PROBE]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    pairs = len(head) // 2
    if pairs < 4 or len(body) % 2:
        return ""
    for codec, at in (("utf-16-le", 1), ("utf-16-be", 0)):
        if head[at::2].count(0) > pairs * 0.8:
            return codec
    return ""


def _of_hex(text: str) -> str:
    return _readable(bytes.fromhex(text))


def _of_base64(text: str) -> str:
    plain = _BREAKS.sub("", text).rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except binascii.Error:
        return ""


def _readable(decoded: bytes) -> str:
    """Return decoded bytes as a text; empty for those of a picture or a digest."""
    codec = utf16_of(decoded) or "utf-8"
    if codec == "utf-8" and _READABLE.fullmatch(decoded[:_PROBE]) is None:
        return ""
    return decoded.decode(codec, "replace")

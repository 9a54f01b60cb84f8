"""Patterns of secrets: the prefixes that vendors document for their keys.

Each pattern begins with the vendor's prefix and requires the length of a key, so that prose,
hashes, ids and pictures in base64 stay. A key without a prefix, such as 32 hexadecimal digits, is
recognized by its name only (`names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""A place where a key may begin; the rest of an escape sequence is not part of the key."""

_RANDOM: Final = r"(?=[\w-]*?(?:[0-9]|[A-Z]{2}|[a-z][A-Z]))"
"""A key has digits, or capitals in the middle of a word. One in sixty short keys has no digit."""
_TANGLED: Final = r"(?=[\w-]*?[a-z][A-Z])"
"""The same for a prefix that words have too: one digit may belong to a year or a version."""
_END: Final = r"(?![A-Za-z0-9_+/=-])"

_FRAGMENTS: Final = {"<edge>": EDGE, "<random>": _RANDOM, "<tangled>": _TANGLED, "<end>": _END}


class _Shapes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The patterns in secrets.yaml."""

    prefixed: dict[str, tuple[tuple[str, ...], str]]
    unprefixed: dict[str, tuple[str, str]]
    personal: dict[str, tuple[str, str]]


def _read() -> _Shapes:
    text = Path(__file__).with_name("secrets.yaml").read_text(encoding="utf-8")
    for name, pattern in _FRAGMENTS.items():
        text = text.replace(name, pattern)
    return msgspec.yaml.decode(text, type=_Shapes)


_SHAPES: Final = _read()
PREFIXED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = _SHAPES.prefixed
"""For each kind: prefixes of its keys, and its pattern."""

_EVERYDAY: Final = frozenset(("API-", "key-", "sdk-", "secret_"))
"""Prefixes that everyday words have, too, such as those of versions and ids."""


def _marks(prefixes: Iterable[str]) -> str:
    """Return a pattern for the prefixes that say alone whose key begins; empty if none does."""
    plain = (p for p in prefixes if len(p) > 3 or p[-1] in "-_")
    return "|".join(re.escape(p) for p in plain if p not in _EVERYDAY and not re.search("[./]", p))


CUT: Final = (
    EDGE
    + f"(?:{'|'.join(f'(?P<{k}>{m})' for k, (p, _) in PREFIXED.items() if (m := _marks(p)))})"
    + _RANDOM
    + r"[\w.~+/=%-]{6,}(?=[\"'`]?…)"
)
"""The beginning of a key that a report cut: ``ghp_4fK1x9…`` is shorter than a key, and most of it
may be there."""

_WORDED: Final[Mapping[str, str]] = {
    "bearer": r"(?i:\bbearer)\s+(?:(?=[A-Za-z.]*[0-9_~+/=-])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
    "basic": r"(?i:authorization[\\\"':\s]*basic)\s+[A-Za-z0-9+/=]{6,}",
    "azure": r"(?i:(?<![\w-])api[-_]?key[\\\"']*\s*[:=]\s*[\\\"']*)[0-9a-fA-F]{32}\b",
}
"""Patterns of secrets after a word; the redactor's `plain_hints` search for the words."""

_NO_WORD: Final = r"(?=[^\s\"'`]*[0-9])(?=[^\s\"'`]*[A-Za-z])"
_VARIABLE: Final = (
    "API_?KEY|SECRET|SECRET_KEY|SECRET_ACCESS_KEY|ACCESS_KEY|PRIVATE_KEY|ACCOUNT_KEY|TOKEN|PASSWORD"
    "|PASSWD|PASSPHRASE|PWD"
)
_LABEL: Final = "password|passwd|passphrase|api[ _-]?key|secret[ _-]?key|client[ _-]?secret"
IN_TEXT: Final = (
    rf"(?<![A-Za-z0-9-])(?:[A-Z0-9]+_)+(?:{_VARIABLE})=[\"']?(?=[^\s\"']{{6}})(?![/.~$])",
    rf"(?<![\w-])(?i:{_LABEL})[ ]?:[ ]+[\"'`]?(?![0-9a-fA-F]{{32}}\b)(?=[^\s\"'`]{{6}}){_NO_WORD}",
    rf"(?<![\w-])(?i:[\w-]*token|secret)[ ]?:[ ]+[\"'`]?(?=[^\s\"'`]{{16}}){_NO_WORD}",
    r"(?<![\w-])(?i:pwd)=(?![/.~$%\\])",
    rf"[?&](?i:sig|signature|token|key|code|x-amz-[a-z-]+)=(?=[^\s&\"'<>]{{16}}){_NO_WORD}",
    r"(?<![\w-])curl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:",
)
"""Patterns of what stands before a secret in running text: in shells, URLs, settings, prose."""
COOKIE: Final = r"(?<=[Cc]ookie: )(?=[^\r\n]*=[^;\s]{8})[\w.-]+=[^\s;\"'\\]*(?:;[ ]*[\w.=%+/-]+)*"
"""The cookies of a header in a text."""
HTTP_WORDS: Final = ("curl", "ookie: ")
LABELS: Final = (
    "password:", "passwd:", "passphrase:", "apikey:", "api key:", "secretkey:", "secret key:",
    "secret:", "token:", "clientsecret:", "client secret:", "password :", "token :",
)  # fmt: skip
"""Words of which a text has one if it has a secret of those kinds; without ``-`` and ``_``."""

FREE: Final[Mapping[str, str]] = {
    **_WORDED,
    "cookie_header": COOKIE,
    **{kind: pattern for kind, (_, pattern) in _SHAPES.unprefixed.items()},
}
"""For each kind without a prefix: its pattern."""
SHAPES: Final = (*FREE, *PREFIXED)
"""All patterns by kind."""
HINTS: Final = tuple(hint for hint, _ in _SHAPES.unprefixed.values())

PERSONAL: Final[Mapping[str, tuple[str, str]]] = _SHAPES.personal
"""Personal data, by kind; it is replaced only on request."""

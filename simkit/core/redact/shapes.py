"""How secrets are recognized: by the names of keys and by vendors' prefixes.

Each pattern begins with the vendor's prefix and requires the length of a key, so that prose,
hashes, ids and pictures in base64 stay. A key without a prefix, such as 32 hexadecimal digits, is
recognized by its name only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
"""A place where a key may begin; the rest of an escape sequence is not part of the key."""

_RANDOM: Final = r"(?=[\w-]*?(?:[0-9]|[A-Z]{2}|[a-z][A-Z]))"
"""A key has digits, or capitals in the middle of a word. One in sixty short keys has no digit."""
_TANGLED: Final = r"(?=[\w-]*?[a-z][A-Z])"
"""The same for a prefix that words have too: one digit may belong to a year or a version."""
_START: Final = r"(?<![A-Za-z0-9+])(?<![A-Za-z0-9+/]{16}/)"
_END: Final = r"(?![A-Za-z0-9_+=-]|/[A-Za-z0-9+/]{16})"
"""The edges of a key among base64's letters: of these, a slash may belong to a path."""

_FRAGMENTS: Final = {
    "edge": EDGE, "random": _RANDOM, "tangled": _TANGLED, "start": _START, "end": _END,
}  # fmt: skip


class _Shapes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables in secrets.yaml."""

    prefixed: dict[str, tuple[tuple[str, ...], str]]
    unprefixed: dict[str, tuple[str, str]]
    worded: dict[str, str]
    personal: dict[str, tuple[str, str]]
    names: tuple[str, ...]
    parameters: frozenset[str]
    cookie_attributes: frozenset[str]
    labels: tuple[str, ...]
    not_in_words: frozenset[str]


def _read() -> _Shapes:
    text = Path(__file__).with_name("secrets.yaml").read_text(encoding="utf-8")
    for name, pattern in _FRAGMENTS.items():
        text = text.replace(f"<{name}>", pattern)
    return msgspec.yaml.decode(text, type=_Shapes)


_SHAPES: Final = _read()
NAMES: Final = _SHAPES.names
"""Keys that hold a secret."""
LABELS: Final = _SHAPES.labels

KINDS: Final = {name.replace("_", ""): name for name in NAMES}
"""The names without separators between their words."""
_UNMARKED: Final = str.maketrans("", "", "-_")

DUMMY_KEY: Final = "simkit"
"""The value of API keys that nobody has to keep secret: it is in place of the user's own."""
NO_KEY: Final = "simkit-without-a-key"
"""The value of API keys that are missing where real requests are sent: none is sent with it."""
_SECRET_ENDINGS: Final = ("_KEY", "_TOKEN", "APIKEY", "PASSPHRASE", "PASSWD", "PASSWORD", "SECRET")
_SECRET_LENGTH_MIN: Final = 8
_WORD_LENGTH_MAX: Final = 16
_IS_NO_WORD: Final = re.compile(r"[0-9]|[a-z][A-Z]").search
_PARTS: Final = re.compile(r"[^\s;,]+").findall


def kind_of(key: str) -> str:
    """Return the secret's name, or an empty text if the key holds no secret."""
    return KINDS.get(key.lower().translate(_UNMARKED), "") if key.isascii() else ""


def is_secret_parameter(name: str) -> bool:
    """Return whether a parameter of a URL is secret by its name."""
    return name.lower().translate(_UNMARKED) in _SHAPES.parameters


@lru_cache(maxsize=4096)
def is_secret_variable(name: str) -> bool:
    """Return whether a variable of the environment is secret by its name."""
    name = name.upper()
    return name == "TOKEN" or name.endswith(_SECRET_ENDINGS) or "API_KEY" in name


def secrets_of(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of environment variables with secret names."""
    return frozenset(
        value
        for variable, value in environ.items()
        if len(value) >= _SECRET_LENGTH_MIN and is_secret_variable(variable)
    )


def is_guessable(value: str) -> bool:
    """Return whether a value is too short for a secret, or a plain word: `dark`, `production`."""
    if len(value) >= _WORD_LENGTH_MAX and not any(map(str.isspace, value)):
        return "[redacted:" in value
    is_short = len(value) < _SECRET_LENGTH_MIN
    return is_short or not _IS_NO_WORD(value) or "[redacted:" in value


_SCALARS: Final = frozenset((str, int, float, bool, type(None)))


def secrets_written_in(data: Any) -> Iterator[str]:
    """Yield the secrets that a user wrote into a document under secret names.

    A mapping ``env`` holds environment variables. Elsewhere a name is a key, or a variable in
    capitals; and a value is a secret only if it is not a plain word (``authorization: approved``),
    which redaction would remove from every text.
    """
    below: list[Any] = [data]
    while below:
        item = below.pop()
        if isinstance(item, (list, tuple)):
            below += [value for value in item if type(value) not in _SCALARS]
        elif isinstance(item, (dict, Mapping)):
            for name, value in item.items():
                # Most values are texts, and `Mapping` is slow to say no.
                if type(value) not in _SCALARS:
                    below.append(value)
                if name == "env" and isinstance(value, Mapping):
                    yield from secrets_of(_texts(value))
                elif (type(name) is str or isinstance(name, str)) and _says_so(name):
                    for element in value if isinstance(value, (list, tuple)) else (value,):
                        yield from _secret_parts(element)


def _texts(variables: Mapping[Any, Any]) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in variables.items()
        if isinstance(name, str) and isinstance(value, (str, int))
    }


@lru_cache(maxsize=4096)
def _says_so(name: str) -> bool:
    return bool(kind_of(name)) or (name.isupper() and is_secret_variable(name))


def _secret_parts(value: Any) -> Iterator[str]:
    """Yield the value and its part without a scheme: ``abc123…`` of ``Bearer abc123…``."""
    if isinstance(value, (str, int)):
        for part in _PARTS(str(value)):
            if part.partition("=")[0].lower() in _SHAPES.cookie_attributes:
                continue
            if len(part) >= _SECRET_LENGTH_MIN and _IS_NO_WORD(part) and "[redacted:" not in part:
                yield part


# Shapes: the prefixes that vendors document for their keys


_IN_WORD: Final = r"(?:(?<=[A-Za-z0-9])(?<![A-Za-z0-9+/]{24})(?![\w+/-]{0,60}AAAA))"
"""A place within a word, but not within a picture or zero bytes in base64."""
_IN_WORDS: Final = {
    "sk-": "(?:(?=sk-(?:admin|ant|or-v1|proj|svcacct)-)"
    "|(?<![AEIOUaeiou])(?=sk-[A-Za-z]*[0-9])(?=sk-[A-Za-z0-9]{20}))"
}
"""Further conditions for prefixes within a word: ``task-`` and ``risk-`` are words."""


_MIXED: Final = _RANDOM.replace("-]", "/.-]")


def edge_of(prefix: str) -> str:
    """Return a pattern for the places where a key with this prefix may begin."""
    if prefix in _SHAPES.not_in_words:
        return EDGE
    return f"(?:{EDGE}|{_IN_WORD}{_IN_WORDS.get(prefix, _MIXED)})"


PREFIXED: Final[Mapping[str, tuple[tuple[str, ...], str]]] = _SHAPES.prefixed
"""For each kind: prefixes of its keys, and its pattern."""

_EVERYDAY: Final = frozenset(("API-", "key-", "sdk-", "secret_", "access-", "A" * 22))
"""Prefixes that everyday words have, too, such as those of versions, ids and pictures."""


def _marks(prefixes: Iterable[str]) -> str:
    """Return a pattern for the prefixes that say alone whose key begins; empty if none does."""
    clear = (p for p in prefixes if len(p) > 3 or p[-1] in "-_")
    return "|".join(re.escape(p) for p in clear if p not in _EVERYDAY and not re.search("[./]", p))


CUT: Final = (
    EDGE
    + f"(?:{'|'.join(f'(?P<{k}>{m})' for k, (p, _) in PREFIXED.items() if (m := _marks(p)))})"
    + _RANDOM
    + r"[\w.~+/=%-]{6,}(?=[\"'`]?…)"
)
"""The beginning of a key that a report cut: ``ghp_4fK1x9…`` is shorter than a key, and most of it
may be there."""

_NO_WORD: Final = r"(?=[^\s\"'`]*[0-9])(?=[^\s\"'`]*[A-Za-z])"
VARIABLES: Final = (
    "API_?KEY|SECRET|SECRET_KEY|SECRET_ACCESS_KEY|ACCESS_KEY|PRIVATE_KEY|ACCOUNT_KEY|TOKEN|PASSWORD"
    "|PASSWD|PASSPHRASE|PWD"
)
_VALUE: Final = rf"(?:(?=[^\s\"'`\\]{{16}})|(?=[^\s\"'`\\]{{6}}){_NO_WORD})(?![/.~$\[])"
is_variable: Final = re.compile(rf"(?:[A-Z0-9]+_)+(?:{VARIABLES})").fullmatch
"""Whether a key of JSON is a variable of the environment with a secret."""
_LABEL: Final = "password|passwd|passphrase|api[ _-]?key|secret[ _-]?key|client[ _-]?secret"
IN_TEXT: Final = (
    rf"(?<![A-Za-z0-9-])(?:[A-Z0-9]+_)+(?:{VARIABLES})=[\"']?(?=[^\s\"']{{6}})(?![/.~$])",
    rf"(?<![A-Za-z0-9-])(?:[A-Z0-9]+_)+(?:{VARIABLES})\\*[\"']?[ ]?:\s*\\*[\"']?{_VALUE}",
    rf"(?<![\w-])(?i:{_LABEL})[ ]?:[ ]+[\"'`]?(?![0-9a-fA-F]{{32}}\b)(?=[^\s\"'`]{{6}}){_NO_WORD}",
    rf"(?<![\w-])(?i:[\w-]*token|secret)[ ]?:[ ]+[\"'`]?(?=[^\s\"'`]{{16}}){_NO_WORD}",
    r"(?<![\w-])(?i:pwd)=(?![/.~$%\\])",
    rf"[?&](?i:sig|signature|token|key|code|x-amz-[a-z-]+)=(?=[^\s&\"'<>]{{16}}){_NO_WORD}",
    r"(?<![\w-])curl\b[^\n]{0,200}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:",
)
"""Patterns of what stands before a secret in running text: in shells, URLs, settings, prose."""
HTTP_WORDS: Final = ("curl", "ookie: ")
FREE: Final = {
    **_SHAPES.worded,
    **{kind: pattern for kind, (_, pattern) in _SHAPES.unprefixed.items()},
}
"""For each kind without a prefix: its pattern."""
SHAPES: Final = (*FREE, *PREFIXED)
"""All patterns by kind."""
HINTS: Final = tuple(hint for hint, _ in _SHAPES.unprefixed.values())

PERSONAL: Final[Mapping[str, tuple[str, str]]] = _SHAPES.personal
"""Personal data, by kind; it is replaced only on request."""

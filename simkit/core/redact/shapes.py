"""How secrets are recognized: by the names of keys, vendors' prefixes, and in encodings.

Each pattern begins with the vendor's prefix and requires the length of a key, so that prose,
hashes, ids and pictures in base64 stay. A key without a prefix, such as 32 hexadecimal digits, is
recognized by its name only.
"""

from __future__ import annotations

import base64
import binascii
import html
import quopri
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

NAMES: Final = (
    "access_token", "account_key", "api_key", "api_secret", "api_token", "auth_token",
    "authorization", "aws_secret_access_key", "aws_session_token", "bearer_token", "client_secret",
    "cookie", "csrf_token", "id_token", "ocp_apim_subscription_key", "passphrase", "passwd",
    "password", "private_key", "proxy_authorization", "refresh_token", "secret",
    "secret_access_key", "secret_key", "session_token", "set_cookie", "shared_access_key",
    "signing_secret", "subscription_key", "webhook_secret", "x_amz_security_token", "x_api_key",
    "x_auth_token", "x_csrf_token", "x_goog_api_key",
)  # fmt: skip
"""Keys that hold a secret. ``token`` is not among them: it is a word of log probabilities."""

PARAMETERS: Final = frozenset(
    ("code", "key", "sig", "signature", "token", "xamzcredential", "xamzsignature")
)
"""Names that are secret as parameters of a URL only; in a body they are everyday words."""

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
    return name.lower().translate(_UNMARKED) in PARAMETERS


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


_COOKIE_ATTRIBUTES: Final = frozenset(
    ("domain", "expires", "httponly", "max-age", "partitioned", "path", "priority", "samesite",
     "secure")
)  # fmt: skip
"""The words after a cookie, which are no secrets."""


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
            if part.partition("=")[0].lower() in _COOKIE_ATTRIBUTES:
                continue
            if len(part) >= _SECRET_LENGTH_MIN and _IS_NO_WORD(part) and "[redacted:" not in part:
                yield part


# Shapes: the prefixes that vendors document for their keys


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

_EVERYDAY: Final = frozenset(("API-", "key-", "sdk-", "secret_", "access-", "A" * 22))
"""Prefixes that everyday words have, too, such as those of versions, ids and pictures."""


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


# Secrets in an encoding that people do not read: base64, hexadecimal, HTML, UTF-16


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
    text = _HEX.sub(replace_secrets(lambda digits: _readable(bytes.fromhex(digits))), text)
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

"""What must never be written: secrets, found by the name of their key, their value or their shape.

A key is secret by its exact name, never by a part of it: a rule for everything with ``token`` in
it would take ``max_tokens`` and ``usage.prompt_tokens`` away, and with them matching and budgets.
What stands in a secret's place says which rule found it, ``[redacted:api_key]``, and is the same
on every machine. Redacting what is redacted changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

import msgspec

_NAMES: Final = (
    "access_token", "account_key", "api_key", "api_secret", "api_token", "auth_token",
    "authorization", "aws_secret_access_key", "aws_session_token", "bearer_token", "client_secret",
    "cookie", "csrf_token", "id_token", "ocp_apim_subscription_key", "passphrase", "passwd",
    "password", "private_key", "proxy_authorization", "refresh_token", "secret",
    "secret_access_key", "secret_key", "session_token", "set_cookie", "shared_access_key",
    "signing_secret", "subscription_key", "webhook_secret", "x_amz_security_token", "x_api_key",
    "x_auth_token", "x_csrf_token", "x_goog_api_key",
)  # fmt: skip
"""Keys whose value is a secret. ``token`` is not among them: it is a word of log probabilities."""

_PARAMETERS: Final = frozenset(
    ("code", "key", "sig", "signature", "token", "xamzcredential", "xamzsignature")
)
"""Secret too as parameters of a URL; in a body they are everyday words."""

_KINDS: Final = {name.replace("_", ""): name for name in _NAMES}
_UNMARKED: Final = str.maketrans("", "", "-_")

_SECRET_ENDINGS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SECRET_LENGTH_MIN: Final = 8

_EDGE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Where a key may begin; the letter of an escaped line break is no part of it."""

_SHAPES: Final = {
    "private_key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "bearer": r"(?i:\bbearer)\s+(?:(?=[A-Za-z.]*[0-9_~+/=-])[\w.~+/=-]{8,}|[\w.~+/=-]{20,})",
    "basic": r"(?i:authorization[\\\"':\s]*basic)\s+[A-Za-z0-9+/=]{6,}",
    "anthropic": _EDGE + r"sk-ant-[\w-]{8,}",
    "openai": _EDGE + r"sk-(?=[\w-]*[A-Z0-9])[\w-]{16,}",
    "stripe": _EDGE + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "groq": _EDGE + r"gsk_[A-Za-z0-9]{20,}",
    "xai": _EDGE + r"xai-[A-Za-z0-9]{20,}",
    "github": _EDGE + r"(?:gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    "gitlab": _EDGE + r"glpat-[\w-]{16,}",
    "google": _EDGE + r"AIza[\w-]{30,}",
    "huggingface": _EDGE + r"hf_[A-Za-z0-9]{20,}",
    "perplexity": _EDGE + r"pplx-[A-Za-z0-9]{20,}",
    "replicate": _EDGE + r"r8_[A-Za-z0-9]{20,}",
    "google_oauth": _EDGE + r"ya29\.[\w-]{20,}",
    "azure": r"(?i:(?<![\w-])api[-_]?key[\\\"']*\s*[:=]\s*[\\\"']*)[0-9a-fA-F]{32}\b",
    "slack": _EDGE + r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "aws": _EDGE + r"A[KS]IA[A-Z0-9]{16,}",
    "jwt": _EDGE + r"eyJ[\w-]{5,}\.[\w-]{5,}\.[\w-]*",
    "url_password": r"(?<=://)[^\s/:@\"'<>\\\[]*:[^\s/@\"'<>\\\[]+(?=@)",
}
"""Secrets that are known by how they look, and what the text in their place calls them."""

_PLACEHOLDER: Final = rf"\[redacted:(?:env|parameter|{'|'.join((*_SHAPES, *_NAMES))})\]"

_NAMED: Final = "|".join(
    name.replace("_", "[-_]?") for name in sorted(_NAMES, key=len, reverse=True)
)
_PAIR: Final = (
    rf"(?P<quoted>(?P<q>\\*[\"'])(?i:{_NAMED})(?P=q)\s*:\s*)(?!\\*[\"']{_PLACEHOLDER})"
    r"(?:(?P<v>\\+[\"']).+?(?<!\\)(?P=v)|\"(?:[^\"\\]|\\.)+\"|'(?:[^'\\]|\\.)+')"
)
"""``"api_key": "…"`` inside a text, at any depth of escaping."""
_ASSIGNED: Final = (
    rf"(?P<assigned>(?<![\w-])(?i:{_NAMED})=(?:\\*[\"'])?)(?!{_PLACEHOLDER})"
    r"[^\s&;,\"'\\<>(){}]+"
)
"""``api_key=…`` as in a query, a form or a shell."""


def _trie(words: Iterable[str]) -> str:
    """Returns a pattern for exactly these words that looks at each character once."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branch(tree)


def _branch(tree: Mapping[str, Any]) -> str:
    ways = [re.escape(letter) + _branch(below) for letter, below in tree.items() if letter]
    if not ways:
        return ""
    return f"(?:{'|'.join(ways)})" + ("?" if "" in tree else "")


# A text or a line is looked through for these first. They find all that the rules find, and more.
# Each begins with a literal, or with few first letters: that is what `re` is fast at.
_LOWER: Final = bytes(range(256)).lower()
_PREFIX: Final = (
    r"(?:s(?:k-|k_[lt])|rk_[lt]|g(?:sk_|h[oprsu]_|ithub_pat_|lpat-)|x(?:ai-|ox[abeoprs]-)"
    r"|hf_|pplx-|r8_|ya29\.|A(?:Iza|[KS]IA)|eyJ[\w-]+\.)"
)
_ANY_PREFIX: Final = re.compile(_PREFIX.encode()).search
# Slower, and asked only then: where pictures are in base64, each prefix is found by chance.
_ANY_EDGED: Final = re.compile(f"{_EDGE}{_PREFIX}[\\w.-]{{6}}".encode()).search
_ANY_OF: Final = tuple(
    re.compile(pattern.encode()).search
    for pattern in (
        r"-----BEGIN ",
        r"://[^\s/:@]*:[^\s/@]+@",
        # A character that need not be escaped, and could hide one of the others.
        r"\\(?:u00|/)",
    )
)
_ANY_OF_PLAIN: Final = tuple(
    re.compile(pattern.encode()).search
    for pattern in (
        rf"\"(?:{_trie(_KINDS)})\\*\"",
        rf"'(?:{_trie(_KINDS)})\\*'",
        "bearer",
        r"basic\s",
        # Without the letter that is left of an escaped line break.
        r"apikey[\\\"']*(?:\\[fnrt]|\s)*[:=]",
    )
)
"""The same for a line in small letters, without the marks that join words."""
_ANY_ASSIGNED: Final = re.compile(f"=(?:{_trie(name[::-1] for name in _KINDS)})".encode()).search
"""The same for that line backwards, because ``=`` is rarer than what may stand before it."""
_IS_PLACEHOLDER: Final = re.compile(_PLACEHOLDER).fullmatch


class Redactor:
    """Replaces secrets in texts, URLs, JSON values and encoded lines."""

    def __init__(self, environ: Mapping[str, str], variables: Iterable[str] = ()) -> None:
        """``environ`` is read for the values of variables whose names say that they are secret.

        ``variables`` names more of them: their values are secret whatever they are called.
        """
        named = {value for name in variables if (value := environ.get(name, ""))}
        secrets = named.union(_secrets_of(environ))
        forms = {form for secret in secrets for form in _forms_of(secret)}
        known = "|".join(re.escape(form) for form in sorted(forms, key=lambda f: (-len(f), f)))
        rules = [
            f"(?P<placeholder>{_PLACEHOLDER})",
            *([f"(?P<env>{known})"] if known else []),
            _PAIR,
            _ASSIGNED,
            *(f"(?P<{kind}>{shape})" for kind, shape in _SHAPES.items()),
        ]
        self._rules = re.compile("|".join(rules), re.ASCII)
        self._needles = [form.encode("utf-8", "surrogatepass") for form in sorted(forms)]
        if not all(secret.isascii() for secret in secrets):
            self._needles.append(b"\\u")

    def text(self, text: str) -> str:
        """Returns the text with every secret replaced."""
        if not self._may_hold_secrets(_bytes_of(text)):
            return text
        # What is put in place of one secret may be the edge that shows the next one.
        while (redacted := self._rules.sub(_replacement, text)) != text:
            text = redacted
        return text

    def found(self, text: str, *, by_name: bool = True) -> Iterator[tuple[int, str]]:
        """Yields where secrets stand in a text, line by line, and which rules find them.

        Without ``by_name``, only those that are known by their value or their shape: a text whose
        quotes are another format's shows names where there are none.
        """
        start = 0
        for line in text.splitlines(keepends=True):
            if self._may_hold_secrets(_bytes_of(line)):
                for match in self._rules.finditer(line):
                    is_named = bool(match["quoted"] or match["assigned"])
                    if match.lastgroup != "placeholder" and (by_name or not is_named):
                        yield start + match.start(), _rule_of(match)
            start += len(line)

    def url(self, url: str) -> str:
        """Returns the URL with every secret replaced, those under ``key``, ``sig``, … too."""
        path, mark, query = url.partition("?")
        if not mark:
            return self.text(url)
        return self.text(f"{path}?{'&'.join(map(_parameter, query.split('&')))}")

    def value(self, json: Any) -> Any:
        """Returns the JSON value with every secret replaced, in keys and in texts too."""
        return self._item(json, "")

    def line(self, encoded_json: bytes) -> bytes:
        """Returns one encoded JSON value, without its line end, with every secret replaced.

        A line without secrets is returned as it is. One that is no JSON is read as a text.
        """
        if not self._may_hold_secrets(encoded_json):
            return encoded_json
        try:
            value = msgspec.json.decode(encoded_json)
        except (ValueError, RecursionError):
            return self._foreign_line(encoded_json)
        redacted = self.value(value)
        return encoded_json if redacted == value else msgspec.json.encode(redacted)

    def _may_hold_secrets(self, line: bytes) -> bool:
        plain = line.translate(_LOWER, b"-_")
        return (
            (_ANY_PREFIX(line) is not None and _ANY_EDGED(line) is not None)
            or any(search(line) for search in _ANY_OF)
            or any(search(plain) for search in _ANY_OF_PLAIN)
            or (b"=" in line and _ANY_ASSIGNED(plain[::-1]) is not None)
            or any(needle in line for needle in self._needles)
        )

    def _foreign_line(self, line: bytes) -> bytes:
        """Redacts what msgspec refuses: half surrogates, ``NaN``, or no JSON at all."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return self.text(line.decode("utf-8", "surrogateescape")).encode(
                "utf-8", "surrogateescape"
            )
        return json.dumps(self.value(value), separators=(",", ":")).encode()

    def _item(self, item: Any, kind: str) -> Any:
        """``kind`` is the secret's name if the item stands under a secret key."""
        if isinstance(item, str):
            if not kind:
                return self.text(item)
            return item if not item or _IS_PLACEHOLDER(item) else f"[redacted:{kind}]"
        if isinstance(item, Mapping):
            return {self.text(key): self._below(key, below, kind) for key, below in item.items()}
        if isinstance(item, (list, tuple)):
            return [self._item(below, kind) for below in item]
        if kind and isinstance(item, (int, float)) and not isinstance(item, bool):
            return f"[redacted:{kind}]"
        return item

    def _below(self, key: str, item: Any, kind: str) -> Any:
        if not kind and key == "properties" and isinstance(item, Mapping):
            # A JSON Schema says what a `password` looks like; that is none.
            return {
                self.text(name): self._item(
                    below, "" if isinstance(below, Mapping) else _kind_of(name)
                )
                for name, below in item.items()
            }
        return self._item(item, kind or _kind_of(key))


def _kind_of(key: str) -> str:
    """Returns the secret's name, or an empty text if the key holds none."""
    return _KINDS.get(key.lower().translate(_UNMARKED), "") if key.isascii() else ""


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _parameter(pair: str) -> str:
    name, _, value = pair.partition("=")
    is_secret = name.lower().translate(_UNMARKED) in _PARAMETERS
    if not is_secret or not value or _IS_PLACEHOLDER(value):
        return pair
    return f"{name}=[redacted:parameter]"


def _replacement(found: re.Match[str]) -> str:
    if found.lastgroup == "placeholder":
        return found.group()
    kind = _rule_of(found)
    start = found["quoted"] or found["assigned"] or ""
    mark = (found["v"] or found.group()[len(start)]) if found["quoted"] else ""
    return f"{start}{mark}[redacted:{kind}]{mark}"


def _rule_of(found: re.Match[str]) -> str:
    """Returns what the text in a secret's place calls it."""
    start = found["quoted"] or found["assigned"]
    if not start:
        return str(found.lastgroup)
    name = re.search(_NAMED, start, re.IGNORECASE)
    assert name is not None
    return _kind_of(name.group())


def _secrets_of(environ: Mapping[str, str]) -> Iterator[str]:
    for variable, value in environ.items():
        name = variable.upper()
        if len(value) >= _SECRET_LENGTH_MIN and (
            name.endswith(_SECRET_ENDINGS) or "API_KEY" in name
        ):
            yield value


def _forms_of(secret: str) -> Iterator[str]:
    """Yields the secret as it stands in a text, in a URL, and in JSON inside a text."""
    yield from (secret, quote_plus(secret, errors="replace"), quote(secret, "", errors="replace"))
    for is_ascii in (False, True):
        once = json.dumps(secret, ensure_ascii=is_ascii)[1:-1]
        yield from (once, json.dumps(once, ensure_ascii=is_ascii)[1:-1], once.replace("/", "\\/"))

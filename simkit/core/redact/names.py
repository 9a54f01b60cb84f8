"""Names of keys and variables that hold secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

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
_SECRET_ENDINGS: Final = (
    "_KEY",
    "_TOKEN",
    "APIKEY",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "SECRET",
)
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

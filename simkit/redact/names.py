"""Names of keys and of variables whose values are secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

NAMES: Final = (
    "access_token", "account_key", "api_key", "api_secret", "api_token", "auth_token",
    "authorization", "aws_secret_access_key", "aws_session_token", "bearer_token", "client_secret",
    "cookie", "csrf_token", "id_token", "ocp_apim_subscription_key", "passphrase", "passwd",
    "password", "private_key", "proxy_authorization", "refresh_token", "secret",
    "secret_access_key", "secret_key", "session_token", "set_cookie", "shared_access_key",
    "signing_secret", "subscription_key", "webhook_secret", "x_amz_security_token", "x_api_key",
    "x_auth_token", "x_csrf_token", "x_goog_api_key",
)  # fmt: skip
"""Keys whose value is a secret. ``token`` is not among them: it is a word of log probabilities."""

PARAMETERS: Final = frozenset(
    ("code", "key", "sig", "signature", "token", "xamzcredential", "xamzsignature")
)
"""Secret too as parameters of a URL; in a body they are everyday words."""

KINDS: Final = {name.replace("_", ""): name for name in NAMES}
"""The names without the marks that join their words."""
_UNMARKED: Final = str.maketrans("", "", "-_")

_SECRET_ENDINGS: Final = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
_SECRET_LENGTH_MIN: Final = 8


def kind_of(key: str) -> str:
    """Return the secret's name, or an empty text if the key holds none."""
    return KINDS.get(key.lower().translate(_UNMARKED), "") if key.isascii() else ""


def is_secret_parameter(name: str) -> bool:
    """Return whether a parameter of a URL is secret by its name."""
    return name.lower().translate(_UNMARKED) in PARAMETERS


def secrets_of(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of variables whose names say that they are secret."""
    for variable, value in environ.items():
        name = variable.upper()
        if len(value) >= _SECRET_LENGTH_MIN and (
            name.endswith(_SECRET_ENDINGS) or "API_KEY" in name
        ):
            yield value

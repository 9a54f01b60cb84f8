"""The environment that points every known client of a program in another process at an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.adapters.environment import DUMMY_KEY
from simkit.providers.protocols import PROTOCOLS

QUIET: Final = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
"""What keeps clients from reporting to their provider by another way than the model's."""
_PROXIES: Final = frozenset(("http_proxy", "https_proxy", "all_proxy"))


def variables_for(url: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment that points every known client at an address."""
    variables: dict[str, str] = {}
    for protocol in PROTOCOLS.values():
        for name, value in protocol.variables.items():
            variables[name] = value.format(url=url)
        variables.update(dict.fromkeys(protocol.keys, DUMMY_KEY))
    if any(name.lower() in _PROXIES for name in environment):
        for name in ("NO_PROXY", "no_proxy"):
            variables[name] = ",".join(filter(None, (environment.get(name), "127.0.0.1")))
    return {**variables, **QUIET}

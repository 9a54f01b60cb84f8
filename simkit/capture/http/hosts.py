"""Allowed hosts: those that a run may connect to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

PATTERNS: Final = "`example.com`, `*.example.com`, `example.com:5432`, or the path of a unix socket"


class HostRule(NamedTuple):
    """One allowed host."""

    host: str
    """The host in lower case; it begins with ``.`` if it means every name below it."""
    port: int | None
    """None for every port."""

    def fits(self, host: str, port: int | None) -> bool:
        """Return whether the rule allows this host; an unknown port fits."""
        if self.port is not None and port is not None and self.port != port:
            return False
        return host.endswith(self.host) if self.host.startswith(".") else host == self.host


def rule(text: str) -> HostRule:
    """Parse a rule as users write it; raise ValueError with the valid forms."""
    host, port = text.strip(), ""
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif host.count(":") == 1:
        host, _, port = host.partition(":")
    is_below = host.startswith("*.")
    name = host[1:] if is_below else host
    if "*" in name or not name.strip(".") or (port and not port.isdecimal()):
        raise ValueError(f"`{text}` is no host: write {PATTERNS}")
    host_name = name if name.startswith("/") else name.lower()
    return HostRule(host_name, int(port) if port else None)


class AllowedHosts:
    """Decides which connections are allowed; learns the addresses of resolved names."""

    __slots__ = ("_names", "_rules")

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        self._rules = tuple(map(rule, hosts))
        self._names: dict[str, set[str]] = {}

    def allow(self, host: str, port: int | None) -> bool:
        """Return whether a rule fits the host, or a name that was resolved to this address."""
        if not self._rules:
            return False
        name = host if host.startswith("/") else host.lower().rstrip(".")
        known = (name, *self._names.get(name, ()))
        return any(each.fits(which, port) for each in self._rules for which in known)

    def learn(self, host: str, addresses: Iterable[str]) -> None:
        """Record the addresses of an allowed name."""
        for address in addresses:
            self._names.setdefault(address.lower(), set()).add(host.lower().rstrip("."))

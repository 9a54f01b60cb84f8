"""HTTP clients in C and Rust, which connect where Python sees nothing: each request is refused.

A client that is not known here reaches the network; SECURITY.md says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

from simkit.capture.http.connections import ask_client
from simkit.capture.http.installing import Replacement, Row
from simkit.core.compat import Library

_METHODS: Final = ("get", "head", "options", "delete", "post", "put", "patch", "request")


def curl_rows(module: ModuleType) -> list[Row]:
    """Return the replacements for `curl_cffi`: what performs all its requests."""
    info = Library("curl_cffi").find("curl_cffi:CurlInfo").EFFECTIVE_URL
    return [
        _row("curl_cffi", "curl_cffi:Curl.perform", lambda args, _: args[0].getinfo(info)),
        _row("curl_cffi", "curl_cffi:AsyncCurl.add_handle", lambda args, _: args[1].getinfo(info)),
    ]


def primp_rows(module: ModuleType) -> list[Row]:
    """Return the replacements for `primp`: its functions, and the methods of its clients."""

    def url(place: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return options.get("url", args[place] if len(args) > place else "")

    return [
        _row("primp", f"primp:{owner}{name}", partial(url, bool(owner) + (name == "request")))
        for owner in ("", "Client.", "AsyncClient.")
        for name in _METHODS
    ]


def _row(client: str, place: str, url_of: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> Row:
    def asking(before: Replacement) -> Replacement:
        def request(*args: Any, **options: Any) -> Any:
            ask_client(client, url_of(args, options))
            return before(*args, **options)

        return request

    return (*Library(client).slot(place), asking)

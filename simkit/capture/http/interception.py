"""Interception: takes all requests of HTTP clients in this process.

It covers `httpx` and `httpx2`, `aiohttp`, and all that uses `http.client`: urllib, `urllib3`,
`requests`, `botocore`. It imports no library itself; a library that is imported later is patched
then. Every other connection is refused (`simkit.capture.http.connections`).

The reasons for these places: docs/decisions/020-transports.md.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib import import_module, metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NamedTuple

from simkit.capture.http import aiohttp_connections, connections, http_connections, httpx_transports
from simkit.capture.http.connections import ask_client
from simkit.capture.http.installing import Installation, Replacement, Row
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

    def url(index: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return options.get("url", args[index] if len(args) > index else "")

    return [
        _row("primp", f"primp:{owner}{name}", partial(url, bool(owner) + (name == "request")))
        for owner in ("", "Client.", "AsyncClient.")
        for name in _METHODS
    ]


def _row(client: str, path: str, url_of: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> Row:
    def asking(before: Replacement) -> Replacement:
        def request(*args: Any, **options: Any) -> Any:
            ask_client(client, url_of(args, options))
            return before(*args, **options)

        return request

    return (*Library(client).slot(path), asking)


# All libraries


class _Library(NamedTuple):
    module: str
    """The module whose import loads the replaced classes."""
    distribution: str
    """The distribution; empty for Python's own."""
    rows: Callable[[ModuleType], list[Row]]


_LIBRARIES: Final = (
    _Library("httpx2", "httpx2", httpx_transports.rows),
    _Library("httpx", "httpx", httpx_transports.rows),
    _Library("aiohttp.connector", "aiohttp", aiohttp_connections.rows),
    _Library("urllib3.connection", "urllib3", http_connections.rows),
    _Library("httplib2", "httplib2", http_connections.rows),
    _Library("http.client", "", http_connections.rows),
)
_REFUSED: Final = (
    _Library("curl_cffi", "curl_cffi", curl_rows),
    _Library("primp", "primp", primp_rows),
)
_BY_MODULE: Final = {library.module: library for library in (*_LIBRARIES, *_REFUSED)}


class Patched(NamedTuple):
    """One loaded library, and its current replacements."""

    library: str
    version: str
    way: str
    """Names of the replaced attributes, separated by commas; empty if none."""


@contextmanager
def intercepting() -> Iterator[None]:
    """Send requests through the current router while at least one of these contexts is open.

    Without a router (`simkit.capture.http.request_router.passing_through`), nothing changes. A task
    that continues after the last context reaches the network: keep one open around all runs.
    """
    with connections.installation, _installation:
        # Not under the installation's lock: it waits for a thread that is importing one of them.
        _installation.replace(_imported_rows())
        yield


def patched() -> list[Patched]:
    """Return the installed client libraries, with the current replacements of each."""
    patched_libraries = []
    for library in _LIBRARIES:
        try:
            version = (
                metadata.version(library.distribution)
                if library.distribution
                else platform.python_version()
            )
        except metadata.PackageNotFoundError:
            continue
        name = library.distribution or library.module
        patched_libraries.append(Patched(name, version, ", ".join(_replaced_of(library))))
    return patched_libraries


def _replaced_of(library: _Library) -> list[str]:
    package = library.module if not library.distribution else library.module.partition(".")[0]
    return [
        f"{owner.__name__}.{name}"
        for owner, name in _installation.replaced
        if f"{getattr(owner, '__module__', owner.__name__)}.".startswith(f"{package}.")
    ]


def _imported_rows() -> list[Row]:
    """Return the replacements for libraries that are imported, or being imported."""
    rows_found = []
    for library in _BY_MODULE.values():
        if library.module in sys.modules:
            # It is imported already: this waits until the import is complete.
            rows_found += _rows_of(library, import_module(library.module))
    return rows_found


@lru_cache(maxsize=16)
def _rows_of(library: _Library, module: ModuleType) -> list[Row]:
    return library.rows(module)


class _AfterImport(MetaPathFinder):
    """An import hook that finds nothing, but patches a library as soon as it is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        library = _BY_MODULE.get(name)
        if library is None:
            return None
        spec = self._found_by_others(name, path, target)
        if spec is not None and spec.loader is not None:
            _patch_after(spec.loader, library)
        return spec

    def _found_by_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


def _patch_after(loader: Any, library: _Library) -> None:
    """Make a loader patch the library once, after it has run the library's module."""
    before = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        before(module)
        # A zip archive's loader is shared, and an alias may give a module of another name.
        if sys.modules.get(library.module) is module:
            loader.__dict__.pop("exec_module", None)
            _installation.replace(_rows_of(library, module))

    loader.exec_module = exec_module


_after_import: Final = _AfterImport()
_installation: Final = Installation(
    started=lambda: sys.meta_path.insert(0, _after_import),
    stopped=lambda: sys.meta_path.remove(_after_import),
)

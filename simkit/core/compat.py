"""The lookup of undocumented parts of other libraries, and the tested versions.

A package of simkit that uses such parts has a module ``compat``. It alone names them, each with the
reason, and looks each up when it is imported. If a new version of a library lacks one, the user
gets one clear message before anything has run.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module, metadata
from typing import Any, Final, TypeAlias

from simkit.core.errors import Unsupported

PYTHON: Final = "Python"
TRIED: Final[Mapping[str, tuple[str, str]]] = {
    PYTHON: ("3.11", "3.13"),
    "aiohttp": ("3.10.0", "3.14.5"),
    "curl_cffi": ("0.17.0", "0.17.0"),
    "google-adk": ("2.13.0", "2.13.0"),
    "httplib2": ("0.22.0", "0.32.1"),
    "httpx": ("0.27.0", "0.28.1"),
    "httpx2": ("2.0.0", "2.16.2"),
    "langchain": ("1.3.1", "1.5.2"),
    "langchain-core": ("1.7.0", "1.8.3"),
    "langchain-openai": ("1.7.0", "1.7.4"),
    "langgraph": ("1.2.3", "1.2.24"),
    "openai-agents": ("0.21.0", "0.24.0"),
    "opentelemetry-api": ("1.30.0", "1.45.2"),
    "opentelemetry-exporter-otlp-proto-grpc": ("1.30.0", "1.45.2"),
    "opentelemetry-exporter-otlp-proto-http": ("1.30.0", "1.45.2"),
    "opentelemetry-sdk": ("1.30.0", "1.45.2"),
    "primp": ("2.0.1", "2.0.1"),
    "pydantic-ai-slim": ("2.60.0", "2.68.0"),
    "urllib3": ("1.26.20", "2.8.0"),
    "vcrpy": ("7.0.0", "9.4.2"),
}
"""The oldest and the newest version of each library with which simkit's tests have passed."""

Slot: TypeAlias = tuple[Any, str]
"""An object and the name of its attribute that is replaced while a scenario runs."""


class Library:
    """One library, in which a module ``compat`` looks objects up by their places.

    A place is written ``package.module:name.name``, as entry points are. Attributes of a class's
    instances are looked up in its annotations and in its ``__init__``.
    """

    def __init__(self, name: str) -> None:
        """``name`` is the distribution's, or `PYTHON`."""
        self.name = name

    def find(self, place: str) -> Any:
        """Return the object at a place; raise Unsupported if there is none."""
        owner, name = self.slot(place)
        return getattr(owner, name)

    def slot(self, place: str) -> Slot:
        """Return the object and the name of an attribute.

        Raises Unsupported if it does not exist, ModuleNotFoundError if the library is not
        installed.
        """
        module, _, path = place.partition(":")
        *owners, name = path.split(".")
        try:
            owner: Any = import_module(module)
            for step in owners:
                owner = getattr(owner, step)
        except (ImportError, AttributeError) as problem:
            if isinstance(problem, ImportError) and problem.name == module.partition(".")[0]:
                raise
            raise self.missing(place) from problem
        if not has_attribute(owner, name):
            raise self.missing(place)
        return owner, name

    def attribute(self, place: str) -> str:
        """Return the name of an attribute of a class's instances; raise Unsupported without it."""
        return self.slot(place)[1]

    def attributes(self, *places: str) -> tuple[str, ...]:
        """Return those attributes that this version has; raise Unsupported if it has none."""
        names = []
        for place in places:
            with suppress(Unsupported):
                names.append(self.attribute(place))
        if not names:
            raise self.missing(places[0])
        return tuple(names)

    def check_layout(self, place: str, names: str) -> None:
        """Raise Unsupported unless a class has all attributes; spaces separate ``names``."""
        for name in names.split():
            self.slot(f"{place}.{name}")

    def slots_if_imported(self, *places: str) -> Iterator[Slot]:
        """Yield the slots of modules that are imported already; raise Unsupported."""
        for place in places:
            if place.partition(":")[0] in sys.modules:
                yield self.slot(place)

    def slots_if_present(self, *places: str) -> Iterator[Slot]:
        """Yield those slots that this version has."""
        for place in places:
            with suppress(Unsupported):
                yield self.slot(place)

    def missing(self, place: str) -> Unsupported:
        """Return the error for a missing part, with the installed version and the tested ones."""
        oldest, newest = TRIED[self.name]
        install = f": pip install '{self.name}>={oldest},<={newest}'" * (self.name != PYTHON)
        return Unsupported(
            f"{self.name} {version_of(self.name)} is installed, which has no `{place}`. simkit "
            f"uses that, and was tried with {self.name} {oldest} to {newest}{install}"
        )


def has_attribute(owner: Any, name: str) -> bool:
    """Return whether an object, or each instance of a class, has an attribute."""
    kinds = owner.__mro__ if isinstance(owner, type) else ()
    return hasattr(owner, name) or any(
        name in vars(kind).get("__annotations__", ())
        or name in getattr(vars(kind).get("__init__"), "__code__", _NO_CODE).co_names
        for kind in kinds
    )


_NO_CODE: Final = (lambda: None).__code__


def version_of(library: str) -> str:
    """Return the installed version of a library, or of Python; "none" if it is not installed."""
    if library == PYTHON:
        return platform.python_version()
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "none"

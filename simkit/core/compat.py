"""Other libraries: undocumented parts, tested versions, and what adapters require.

A package of simkit that uses such parts has a module ``compat``. It alone names them, each with the
reason, and looks each up when it is imported. If a new version of a library lacks one, the user
gets one clear message before anything has run.
"""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from simkit.core.errors import Unsupported

PYTHON: Final = "Python"


class LibraryFacts(msgspec.Struct, frozen=True):
    """Facts about the libraries of others, by the names of their distributions."""

    tried: dict[str, tuple[str, str]]
    """The oldest and the newest version with which simkit's tests have passed."""
    distributions: dict[str, str]
    """Modules that many programs import, with their distributions on PyPI."""
    providers: tuple[str, ...]
    """Clients of model providers."""
    frameworks: tuple[str, ...]
    other_process: tuple[str, ...]
    """Frameworks whose model calls another process makes."""
    told_by_spans: dict[str, str]
    """Frameworks whose agents simkit recognizes by the spans that they emit."""
    clients: dict[str, str]
    """Clients that are not patched themselves, and whether simkit sees their requests."""
    plugins: dict[str, str]
    """pytest plugins that disturb simkit, and how."""
    unseen: dict[str, str]
    """Modules whose connections are never seen, and why."""
    visibility: dict[str, tuple[str, ...]]
    """Whether contexts, runs, handoffs, state and filters of a framework are seen, by its adapter,
    or by what else tells its agents."""


LIBRARIES: Final = msgspec.yaml.decode(
    Path(__file__).with_name("libraries.yaml").read_bytes(), type=LibraryFacts
)
TRIED: Final = LIBRARIES.tried

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


# Libraries of pipelines: installed versions, and requirements of adapters


PROVIDERS: Final = LIBRARIES.providers
FRAMEWORKS: Final = LIBRARIES.frameworks

GROUP: Final = "simkit.adapters"
"""The group of entry points of adapters, and the package of simkit's own."""


def installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the installed ones of these distributions, with their versions."""
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def libraries() -> dict[str, str]:
    """Return the installed frameworks and provider clients, with their versions."""
    return dict(installed((*FRAMEWORKS, *PROVIDERS)))


def extra_for(module: str) -> str:
    """Return the extra that installs a missing module; empty for none."""
    for entry in metadata.entry_points(group=GROUP):
        # Without any package of Google's, `google` is missing, and not `google.adk`.
        is_named = f"{entry.name}.".startswith(f"{module}.") or module.startswith(f"{entry.name}.")
        if is_named and entry.dist is not None:
            extra = adapter_of(entry)
            if extra in (entry.dist.metadata.get_all("Provides-Extra") or ()):
                return extra
    return ""


def adapter_of(entry: metadata.EntryPoint) -> str:
    """Return the name of an adapter for users: that of its package."""
    return entry.value.partition(":")[0].rpartition(".")[2].replace("_", "-")


@lru_cache
def unfit(entry: metadata.EntryPoint) -> str:
    """Return what is wrong with the version of an adapter's framework; empty if nothing is."""
    if entry.dist is None or not entry.value.startswith(GROUP):
        return ""
    extra = adapter_of(entry)
    for line in entry.dist.requires or ():
        with contextlib.suppress(InvalidRequirement, metadata.PackageNotFoundError):
            needed = Requirement(line)
            if needed.marker is None or not needed.marker.evaluate({"extra": extra}):
                continue
            if needed.marker.evaluate({"extra": ""}):
                continue
            version = metadata.version(needed.name)
            if not needed.specifier.contains(version, prereleases=True):
                supported = f"{needed.name}{needed.specifier}"
                return (
                    f"{needed.name} {version} is installed, and simkit supports {supported}: "
                    f"`pip install --upgrade '{supported}'`"
                )
    return ""

"""vcrpy's options, and what must be known to a `vcr.VCR` before it takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from simkit.capture.cassettes import Keying
from simkit.core.redact import Redactor
from simkit.core.redact.names import secrets_of
from simkit.core.redact.shapes import PERSONAL
from simkit.vcr.hooks import Hooks
from simkit.vcr.matching import Matching

Recorder = TypeVar("Recorder")
"""A `vcr.VCR`."""

_HOOKS: Final = ("before_record_request", "before_record_response")


class Setting(msgspec.Struct, frozen=True):
    """One configuration at work."""

    suffix: str
    """What is added to the names of its matchers; nothing where nothing was asked for."""
    matching: Matching
    hooks: Hooks

    @property
    def matcher(self) -> str:
        """The name under which a `vcr.VCR` knows the matcher."""
        return f"matches_model_request{self.suffix}"

    @property
    def nearest(self) -> str:
        """The name of the matcher that chooses what vcrpy's error shows."""
        return f"is_nearest_recording{self.suffix}"


_MADE: Final[dict[str, Setting]] = {}
"""All that `register` makes known, by suffix."""


def vcr_config(
    *,
    volatile: Iterable[str] = (),
    secrets: Iterable[str] = (),
    personal: Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Returns options for `vcr.VCR`, and for the fixture ``vcr_config`` of pytest-recording.

    ``volatile`` are paths into bodies of model calls (``messages.*.name``) or ``/patterns/`` of
    text that differ each time; ``secrets`` names variables of the environment whose values are
    kept out of files; ``personal`` what else is: ``email``, ``phone``. ``options`` are vcrpy's, and
    come before these; hooks among them run before those that redact.

    ``record_mode`` is not among them unless it is given: pytest-recording records nothing by
    default, and in its configuration a mode would overrule ``--record-mode``.
    Raises ReferenceInvalid for a path or a pattern that is none.
    """
    made = setting(volatile, secrets, personal)
    found: dict[str, Any] = {
        "match_on": ["method", made.matcher, made.nearest],
        "decode_compressed_response": True,
        **options,
    }
    for name in _HOOKS:
        theirs = options.get(name) or ()
        before = list(theirs) if isinstance(theirs, Iterable) else [theirs]
        found[name] = [*before, getattr(made.hooks, name)]
    return found


def register(vcr: Recorder) -> Recorder:
    """Makes the matchers of every configuration known to a `vcr.VCR`, and returns it.

    vcrpy knows matchers by name, one object at a time. For those that pytest-recording makes,
    simkit's plugin for pytest does it.
    """
    known: Any = vcr
    for made in _MADE.values():
        known.register_matcher(made.matcher, made.matching.matches_model_request)
        known.register_matcher(made.nearest, made.matching.is_nearest_recording)
    return vcr


def setting(
    volatile: Iterable[str] = (), secrets: Iterable[str] = (), personal: Iterable[str] = ()
) -> Setting:
    """Returns the matchers and hooks of a configuration; of an equal one, the same."""
    words = {"volatile": volatile, "secrets": secrets, "personal": personal}
    asked = {name: _texts(name, found) for name, found in words.items()}
    for word in asked["personal"]:
        if word not in PERSONAL:
            raise ValueError(f"personal: {word!r} is not known; known: {', '.join(PERSONAL)}")
    hidden = {os.environ.get(name, "") for name in asked["secrets"]}
    made = _made(**asked, hidden=frozenset(hidden.union(secrets_of(os.environ))))
    _MADE[made.suffix] = made
    return made


def _texts(name: str, found: Iterable[str]) -> tuple[str, ...]:
    if isinstance(found, str):
        raise TypeError(f"{name}: a list of texts is needed, not the text {found!r}")
    return tuple(found)


@lru_cache(maxsize=64)
def _made(
    volatile: tuple[str, ...],
    secrets: tuple[str, ...],
    personal: tuple[str, ...],
    hidden: frozenset[str],
) -> Setting:
    """``hidden`` are the values that the environment holds: with others, it is another setting."""
    redactor = Redactor(os.environ, secrets, personal)
    said = {"volatile": volatile, "secrets": secrets, "personal": personal}
    suffix = "".join(f" {name}={','.join(words)}" for name, words in said.items() if words)
    return Setting(suffix, Matching(Keying(redactor, volatile)), Hooks(redactor))

"""vcrpy's options, and the registration of matchers with a `vcr.VCR`."""

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
    """One configuration with its matchers and hooks."""

    suffix: str
    """The suffix of its matchers' names; empty for the default configuration."""
    matching: Matching
    hooks: Hooks

    @property
    def matcher(self) -> str:
        """Return the name of the matcher in a `vcr.VCR`."""
        return f"matches_model_request{self.suffix}"

    @property
    def nearest(self) -> str:
        """Return the name of the matcher that selects the recordings in vcrpy's error."""
        return f"is_nearest_recording{self.suffix}"


_SETTINGS: Final[dict[str, Setting]] = {}
"""All configurations that `register` registers, by suffix."""


def vcr_config(
    *,
    volatile: Iterable[str] = (),
    secrets: Iterable[str] = (),
    personal: Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Return options for `vcr.VCR`, and for the fixture ``vcr_config`` of pytest-recording.

    ``volatile`` are paths into bodies of model calls (``messages.*.name``) or ``/patterns/`` of
    text that differ each time; ``secrets`` names environment variables with values that must not be
    written; ``personal`` names personal data: ``email``, ``phone``. ``options`` are vcrpy's, and
    take precedence; hooks among them run before those that redact.

    The result has no ``record_mode`` unless it is given: pytest-recording records nothing by
    default, and a mode in its configuration would overrule ``--record-mode``. Raise
    ReferenceInvalid for an invalid path or pattern.
    """
    setting_ = setting(volatile, secrets, personal)
    settings: dict[str, Any] = {
        "match_on": ["method", setting_.matcher, setting_.nearest],
        "decode_compressed_response": True,
        **options,
    }
    for name in _HOOKS:
        theirs = options.get(name) or ()
        before = list(theirs) if isinstance(theirs, Iterable) else [theirs]
        settings[name] = [*before, getattr(setting_.hooks, name)]
    return settings


def register(vcr: Recorder) -> Recorder:
    """Make the matchers of every configuration known to a `vcr.VCR`, and return it.

    vcrpy registers matchers by name, on each object. simkit's pytest plugin does it for the objects
    of pytest-recording.
    """
    known: Any = vcr
    for hooks in _SETTINGS.values():
        known.register_matcher(hooks.matcher, hooks.matching.matches_model_request)
        known.register_matcher(hooks.nearest, hooks.matching.is_nearest_recording)
    return vcr


def setting(
    volatile: Iterable[str] = (), secrets: Iterable[str] = (), personal: Iterable[str] = ()
) -> Setting:
    """Return the matchers and hooks of a configuration; equal ones share them."""
    words = {"volatile": volatile, "secrets": secrets, "personal": personal}
    options = {name: _texts(name, texts) for name, texts in words.items()}
    for word in options["personal"]:
        if word not in PERSONAL:
            raise ValueError(f"personal: {word!r} is not known; known: {', '.join(PERSONAL)}")
    hidden = {os.environ.get(name, "") for name in options["secrets"]}
    hooks = _build_setting(**options, hidden=frozenset(hidden.union(secrets_of(os.environ))))
    _SETTINGS[hooks.suffix] = hooks
    return hooks


def _texts(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise TypeError(f"{name}: a list of texts is needed, not the text {texts!r}")
    return tuple(texts)


@lru_cache(maxsize=64)
def _build_setting(
    volatile: tuple[str, ...],
    secrets: tuple[str, ...],
    personal: tuple[str, ...],
    hidden: frozenset[str],
) -> Setting:
    """Build a configuration; ``hidden`` are the secret values in the environment."""
    redactor = Redactor(os.environ, secrets, personal)
    options = {"volatile": volatile, "secrets": secrets, "personal": personal}
    suffix = "".join(f" {name}={','.join(words)}" for name, words in options.items() if words)
    return Setting(suffix, Matching(Keying(redactor, volatile)), Hooks(redactor))

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


_SETTINGS: Final[dict[str, Setting]] = {}
"""All that `register` makes known, by suffix."""


def vcr_config(
    *,
    volatile: Iterable[str] = (),
    secrets: Iterable[str] = (),
    personal: Iterable[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """Return options for `vcr.VCR`, and for the fixture ``vcr_config`` of pytest-recording.

    ``volatile`` are paths into bodies of model calls (``messages.*.name``) or ``/patterns/`` of
    text that differ each time; ``secrets`` names variables of the environment whose values are
    kept out of files; ``personal`` what else is: ``email``, ``phone``. ``options`` are vcrpy's, and
    come before these; hooks among them run before those that redact.

    ``record_mode`` is not among them unless it is given: pytest-recording records nothing by
    default, and in its configuration a mode would overrule ``--record-mode``.
    Raises ReferenceInvalid for a path or a pattern that is none.
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

    vcrpy knows matchers by name, one object at a time. For those that pytest-recording makes,
    simkit's plugin for pytest does it.
    """
    known: Any = vcr
    for hooks in _SETTINGS.values():
        known.register_matcher(hooks.matcher, hooks.matching.matches_model_request)
        known.register_matcher(hooks.nearest, hooks.matching.is_nearest_recording)
    return vcr


def setting(
    volatile: Iterable[str] = (), secrets: Iterable[str] = (), personal: Iterable[str] = ()
) -> Setting:
    """Return the matchers and hooks of a configuration; of an equal one, the same."""
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
    """``hidden`` are the values that the environment holds: with others, it is another setting."""
    redactor = Redactor(os.environ, secrets, personal)
    options = {"volatile": volatile, "secrets": secrets, "personal": personal}
    suffix = "".join(f" {name}={','.join(words)}" for name, words in options.items() if words)
    return Setting(suffix, Matching(Keying(redactor, volatile)), Hooks(redactor))

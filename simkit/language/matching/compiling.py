"""Compilation of a YAML value into a matcher: a mapping, a list or a scalar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkit.core.errors import MatcherError
from simkit.language.matching.general import scalar
from simkit.language.matching.lists import whole
from simkit.language.matching.mappings import exactly, keyed
from simkit.language.matching.misses import Condition, Path, conjunction
from simkit.language.matching.operators import OPERATORS


def build(matcher: Any, at: Path) -> Condition:
    """Return the compiled matcher; raise MatcherError with the path of an invalid part."""
    if matcher is None or isinstance(matcher, (str, int, float)):
        return scalar(matcher, at)
    if isinstance(matcher, (list, tuple)):
        return whole(list(matcher), at, build)
    if isinstance(matcher, Mapping):
        return _mapping(matcher, at)
    raise MatcherError(
        at, f"a matcher is a mapping, a list or a scalar, not {type(matcher).__name__}"
    )


def build_exact(matcher: Any, at: Path) -> Condition:
    """Return the compiled operand of ``$exact``: mappings in it have no other keys."""
    if isinstance(matcher, (list, tuple)):
        return whole(list(matcher), at, build_exact)
    if isinstance(matcher, Mapping):
        return _mapping(matcher, at, is_exact=True)
    return build(matcher, at)


def _mapping(matcher: Mapping[str, Any], at: Path, is_exact: bool = False) -> Condition:
    if not matcher and not is_exact:
        raise MatcherError(
            at,
            "the matcher `{}` would hold of everything",
            "{}",
            (),
            "write `{$exact: {}}` for an empty mapping, `{$any: true}` for any value",
        )
    for key in matcher:
        if not isinstance(key, str):
            raise MatcherError(at, f"the keys of a matcher are texts, not {key!r}")
    plain = {key: operand for key, operand in matcher.items() if not is_operator(key)}
    parts = [
        _operator(key, operand, at, is_exact)
        for key, operand in matcher.items()
        if is_operator(key)
    ]
    if is_exact and (plain or not matcher):
        parts.append(exactly(plain, at, build_exact))
    elif plain:
        parts.append(keyed(plain, at, build))
    return parts[0] if len(parts) == 1 else conjunction(parts)


def is_operator(key: str) -> bool:
    """Return whether a key is an operator; ``$$`` begins a plain key that starts with ``$``."""
    return key.startswith("$") and not key.startswith("$$")


def _operator(name: str, operand: Any, at: Path, is_exact: bool) -> Condition:
    if name not in OPERATORS:
        raise MatcherError(
            (*at, name),
            f"no operator is named `{name}`",
            name,
            tuple(sorted(OPERATORS)),
            f"write `${name}` for a key that starts with `$`",
        )
    # A denial compares loosely, so that it excludes more values.
    exact = name == "$exact" or (is_exact and name != "$not")
    return OPERATORS[name].build(operand, (*at, name), build_exact if exact else build)

"""Cassettes from files, whoever recorded them."""

from __future__ import annotations

from pathlib import Path

from simkit.capture.cassettes.dialects import Misfit, interactions_of
from simkit.capture.cassettes.reading import Text, read
from simkit.capture.cassettes.values import Cassette


def load(path: str | Path) -> Cassette:
    """Returns the cassette at ``path``; raises CassetteInvalid for whatever is wrong with it.

    YAML, or JSON by the file's extension; either may be compressed (``.yaml.gz``).
    """
    return loads(read(Path(path)), path)


def loads(content: bytes, path: str | Path) -> Cassette:
    """Returns the cassette that a file's bytes stand for; ``path`` tells how to read them."""
    text = Text(Path(path), content)
    try:
        return Cassette(text.path, tuple(interactions_of(text.tree())))
    except Misfit as misfit:
        raise text.invalid(misfit.at, misfit.problem) from None


def absent(path: str | Path) -> Cassette:
    """Returns the cassette of a file that is not there yet: nothing is recorded in it."""
    return Cassette(Path(path), (), is_there=False)

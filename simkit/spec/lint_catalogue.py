"""Catalogue of lints: name, severity, rule, and what to do about a finding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec

T = TypeVar("T")


class LintEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One lint in the catalogue and the reports."""

    severity: Literal["E", "W"]
    """``E`` fails the scenario, ``W`` is a warning."""
    name: str
    rule: str
    fix: str
    fix_in_code: str = ""
    """The advice if the pipeline is code; empty if ``fix`` fits code too."""
    cause: str = ""
    """Why it usually happens."""

    def advice(self, is_code: bool) -> str:
        """Return what to do, for a pipeline that is code or for a declared one."""
        return (self.fix_in_code if is_code else "") or self.fix


def entries_in(file: str, part: type[T]) -> T:
    """Return the entries of a YAML file of this package."""
    return msgspec.yaml.decode(Path(__file__).with_name(file).read_bytes(), type=part)


LINTS: Final[Mapping[str, LintEntry]] = entries_in("lints.yaml", dict[str, LintEntry])

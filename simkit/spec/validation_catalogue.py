"""Catalogue of ``simkit validate``: findings by code, with rule, severity and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.spec.lint_catalogue import LintEntry, entries_in

PREFIX: Final = "VAL-"

_PARTS: Final = entries_in("validation.yaml", dict[str, dict[str, LintEntry]])

REFUSALS: Final[Mapping[str, LintEntry]] = _PARTS["refusals"]
"""Errors that keep a file from running. They cannot be turned off."""

FINDINGS: Final[Mapping[str, LintEntry]] = _PARTS["findings"]
"""Flaws of files that could run. A file turns one off with a reason, under ``lints``."""

CODES: Final[Mapping[str, LintEntry]] = {**REFUSALS, **FINDINGS}

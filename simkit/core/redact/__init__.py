"""Redaction: replace secrets, found by the name of their key, their value or their pattern.

`Redactor` replaces them; ``names`` and ``shapes`` say what a secret is; ``spans`` cuts a text that
consists of pieces.
"""

from simkit.core.redact.names import SILENT_NAMES, no_secret_stands_under, secrets_written_in
from simkit.core.redact.redactor import Redactor, redactor_of

__all__ = [
    "SILENT_NAMES",
    "Redactor",
    "no_secret_stands_under",
    "redactor_of",
    "secrets_written_in",
]

"""Redaction: replace secrets, found by the name of their key, their value or their pattern.

`Redactor` replaces them; ``names`` and ``shapes`` say what a secret is; ``spans`` cuts a text that
consists of pieces.
"""

from simkit.core.redact.names import secrets_written_in
from simkit.core.redact.redactor import Redactor, redactor_of

__all__ = [
    "Redactor",
    "redactor_of",
    "secrets_written_in",
]

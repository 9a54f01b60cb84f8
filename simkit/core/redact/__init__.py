"""Redaction: replace secrets, found by the name of their key, their value or their pattern.

`Redactor` replaces them; ``shapes`` says what a secret is; ``prefilter`` finds the texts that may
contain one.
"""

from simkit.core.redact.redactor import Redactor, redactor_of
from simkit.core.redact.shapes import secrets_written_in

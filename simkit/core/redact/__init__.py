"""What must never be written: secrets, found by the name of their key, their value or their shape.

`Redactor` replaces them; ``names`` and ``shapes`` are what it knows, ``spans`` how a text that
stands in pieces is cut.
"""

from simkit.core.redact.names import secrets_written_in
from simkit.core.redact.redactor import Redactor

__all__ = ["Redactor", "secrets_written_in"]

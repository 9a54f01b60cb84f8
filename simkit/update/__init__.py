"""Updates: the actual values become the claims, as edits of scenario files.

``failing`` collects the failing claims with the actual values; ``changing`` computes the changes of
a claim; ``first_claims`` makes claims for turns without any; ``proposals`` are the edits of one
run; ``merging`` puts those of all runs into the text; ``files`` shows the difference and writes.
"""

from simkit.update.files import FileChange, refuse_in_ci, write
from simkit.update.merging import accepted_lines, changed_text, file_changes
from simkit.update.proposals import (
    Note,
    Proposal,
    additions,
    decoded,
    encoded,
    fixes,
    note_lines,
)

__all__ = [
    "FileChange",
    "Note",
    "Proposal",
    "accepted_lines",
    "additions",
    "changed_text",
    "decoded",
    "encoded",
    "file_changes",
    "fixes",
    "note_lines",
    "refuse_in_ci",
    "write",
]

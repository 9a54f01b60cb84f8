"""Accepting: what was found becomes what is claimed, as edits of scenario files.

``failing`` collects the claims that do not hold with what was found; ``changing`` says what in a
claim must change; ``first_claims`` makes claims for turns that have none; ``proposals`` are the
edits of one run; ``merging`` puts those of all runs into the text; ``files`` shows the difference
and writes.
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

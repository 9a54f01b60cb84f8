"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable


def near(word: str, known: Iterable[str]) -> str:
    """Returns that of ``known`` which ``word`` probably meant, in any case, or an empty text."""
    spelled = {one.lower(): one for one in known}
    if not word or not spelled:
        return ""
    # Imported here because most files have no misspelled word.
    import difflib

    matches = difflib.get_close_matches(word.lower(), spelled, n=1)
    return spelled[matches[0]] if matches else ""

"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable


def near(word: str, known: Iterable[str]) -> str:
    """Returns that of ``known`` which ``word`` probably meant, in any case, or an empty text."""
    spelled = {name.lower(): name for name in known}
    if not word or not spelled:
        return ""
    # Imported here because most files have no misspelled word.
    import difflib

    matches = difflib.get_close_matches(word.lower(), spelled, n=1)
    return spelled[matches[0]] if matches else ""


class Open(tuple[str, ...]):
    """Names beside which there may be others: what is nearly one of these alone is a mistake."""

    __slots__ = ()

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or not (isinstance(word, str) and near(word, self))

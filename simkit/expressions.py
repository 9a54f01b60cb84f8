"""Regular expressions that users write, limited in time: none may hang a run.

Python's `re` backtracks, and nothing can stop it once it searches: ``^(a+)+$`` takes years for 40
letters. So only what is certain to end soon is left to `re`: an expression without repeats, or a
text that is short for the number of its repeats. All else is searched by the library `regex`, which
reads the same syntax and takes a limit in time (docs/decisions).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from simkit.errors import PatternTooSlow

SECONDS_MAX: Final = 5.0
"""How long one search may take; a search that ends takes milliseconds."""
STEPS_MAX: Final = 1_000_000
"""How many steps `re` may need at most."""

_REPEAT: Final = re.compile(r"[*+?{]")
_NESTED: Final = re.compile(r"\)[*+{]")
_BRACE: Final = re.compile(r"(\\.)|\{(?!\d*,?\d*\})", re.DOTALL)
"""An escaped character, or a brace that repeats nothing: `regex` would read ``{e}`` as fuzzy."""
_SHOWN_MAX: Final = 80


class Expression:
    """A user's regular expression."""

    def __init__(self, pattern: str) -> None:
        """Raise `re.error` for what is none."""
        self.pattern = pattern
        self._quick = re.compile(pattern)
        self.groups = self._quick.groups
        self._repeats = len(_REPEAT.findall(pattern))
        self._is_nested = _NESTED.search(pattern) is not None
        self._limited: Any = None

    def search(self, text: str) -> Any:
        """Return the first match, or None; raise PatternTooSlow if there is no answer in time."""
        if self._ends_soon(text):
            return self._quick.search(text)
        return self._in_time(lambda: self._slow.search(text, timeout=SECONDS_MAX), text)

    def sub(self, replacement: str | Callable[[Any], str], text: str) -> str:
        """Return the text with every match replaced; raise PatternTooSlow as `search` does."""
        if self._ends_soon(text):
            return self._quick.sub(replacement, text)
        found = self._in_time(lambda: self._slow.sub(replacement, text, timeout=SECONDS_MAX), text)
        return str(found)

    def _ends_soon(self, text: str) -> bool:
        if not self._repeats:
            return True
        # A search may begin at each character, and each repeat may end at each.
        most: int = (len(text) + 1) ** min(self._repeats + 1, 8)
        return most <= STEPS_MAX and not self._is_nested

    @property
    def _slow(self) -> Any:
        if self._limited is None:
            # Imported here because hardly a search needs it.
            import regex

            plain = _BRACE.sub(lambda found: found[1] or r"\{", self.pattern)
            self._limited = regex.compile(plain, regex.VERSION0)
        return self._limited

    def _in_time(self, searched: Callable[[], Any], text: str) -> Any:
        try:
            return searched()
        except TimeoutError:
            shown = self.pattern[:_SHOWN_MAX] + "…" * (len(self.pattern) > _SHOWN_MAX)
            raise PatternTooSlow(
                f"the regular expression `{shown}` found no answer within {SECONDS_MAX:g} s in a "
                f"text of {len(text):,} characters\n"
                "  Repeats inside repeats, as in `(a+)+`, are tried in every combination: write it "
                "without, or use `$contains`, `$starts` or `$ends`."
            ) from None

"""Regular expressions that users write, limited in time: none may hang a run.

Python's `re` backtracks, and nothing can stop it once it searches: ``^(a+)+$`` takes years for 40
letters, and so does ``^(a|aa)(a|aa)…x`` with 40 groups, in which nothing repeats. So only what is
certain to end soon is left to `re`: an expression with few ways through it, or a text that is short
for the number of its repeats. All else is searched by the library `regex`, which reads the same
syntax and takes a limit in time (docs/decisions).
"""

from __future__ import annotations

import math
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
_FOREIGN: Final = re.compile(r"(\\.)|(?<=\[):|\{(?!\d*,?\d*\})", re.DOTALL)
"""An escaped character, or what only `regex` knows: ``[[:alpha:]]`` and ``{e}``, which is fuzzy."""
_NO_CHOICE: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escaped character or a class: what stands in it is no group and no alternative."""
_WAYS_MAX: Final = 1_000
"""How many ways may lead through an expression at each character of a text."""
_SHOWN_MAX: Final = 80


class Expression:
    """A user's regular expression."""

    def __init__(self, pattern: str) -> None:
        """Raise `re.error` for what is none."""
        self.pattern = pattern
        self._quick = _compiled(pattern)
        self.groups = self._quick.groups
        self._repeats = len(_REPEAT.findall(pattern))
        self._ways = _ways_through(_NO_CHOICE.sub(".", pattern))
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
            return self._ways <= _WAYS_MAX
        # A search may begin at each character, and each repeat may end at each.
        most: int = self._ways * (len(text) + 1) ** min(self._repeats + 1, 8)
        return most <= STEPS_MAX and not self._is_nested

    @property
    def _slow(self) -> Any:
        if self._limited is None:
            # Imported here because hardly a search needs it.
            import regex

            plain = _FOREIGN.sub(lambda found: found[1] or f"\\{found[0]}", self.pattern)
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


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except OverflowError as error:
        raise re.error(str(error), pattern) from None
    except RecursionError:
        raise re.error("its groups are nested too deeply", pattern) from None


def _ways_through(pattern: str) -> int:
    """Return at most how many ways alternatives give: those of groups in a row multiply."""
    open_groups, whole = [1], list[int]()
    for mark in re.findall(r"[(|)]", pattern):
        if mark == "(":
            open_groups.append(1)
        elif mark == "|":
            open_groups[-1] += 1
        else:
            whole.append(open_groups.pop())
    return math.prod((*whole, *open_groups))

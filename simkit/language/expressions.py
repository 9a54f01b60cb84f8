"""User-written regular expressions, limited in time so that none can hang a run.

Python's `re` backtracks and cannot be stopped during a search: ``^(a+)+$`` takes years for 40
letters, and so does ``^(a|aa)(a|aa)…x`` with 40 groups, in which nothing repeats. So `re` gets only
searches that certainly end soon: few alternatives, or a text that is short for the number of
repeats. The library `regex` does the rest; it reads the same syntax and takes a time limit
(docs/decisions).
"""

from __future__ import annotations

import _thread
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from simkit.core.errors import PatternTooSlow
from simkit.core.raw_threads import start_raw_thread
from simkit.core.text import late_pattern, short_end

CPU_SECONDS_MAX: Final = 2.0
"""The CPU time of one search in seconds; a search that ends takes milliseconds."""
SECONDS_MAX: Final = 10.0
"""The wall time of one search in seconds; on a busy machine this may be too short."""
STEPS_MAX: Final = 1_000_000
"""The largest number of steps that `re` may need."""

_REPEAT: Final = late_pattern(r"[*+?{]")
_NESTED: Final = late_pattern(r"\)[*+{]")
_FOREIGN: Final = late_pattern(r"(\\.)|(?<=\[):|\{(?!\d*,?\d*\})", re.DOTALL)
"""An escaped character, or syntax of `regex` only: ``[[:alpha:]]`` and fuzzy ``{e}``."""
_NO_CHOICE: Final = late_pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escaped character or a class, which contain no group and no alternative."""
SIZE_MAX: Final = 100_000
"""The largest size of an expression: `regex` needs about 5 kB for each character."""
_WAYS_MAX: Final = 1_000
"""The largest number of alternative paths through an expression at one character of a text."""
_SHOWN_MAX: Final = 80


class Expression:
    """A user's regular expression."""

    def __init__(self, pattern: str) -> None:
        """Raise `re.error` for an invalid pattern."""
        self.pattern = pattern
        self._quick = _compiled(pattern)
        self.groups = self._quick.groups
        self._repeats = len(_REPEAT.findall(pattern))
        self._ways = _ways_through(_NO_CHOICE.sub(".", pattern))
        self._is_nested = _NESTED.search(pattern) is not None
        self._limited: Any = None

    def search(self, text: str) -> Any:
        """Return the first match, or None; raise PatternTooSlow if the search takes too long."""
        if self._ends_soon(text):
            return self._quick.search(text)
        return self._in_time(self._slow.search, text)

    def sub(self, replacement: str | Callable[[Any], str], text: str) -> str:
        """Return the text with every match replaced; raise PatternTooSlow as `search` does."""
        if self._ends_soon(text):
            return self._quick.sub(replacement, text)
        return str(self._in_time(partial(self._slow.sub, replacement), text))

    def _ends_soon(self, text: str) -> bool:
        if not self._repeats:
            return self._ways <= _WAYS_MAX
        # A search may begin at each character, and each repeat may end at each.
        most: int = self._ways * (len(text) + 1) ** min(self._repeats + 1, 8)
        return most <= STEPS_MAX and not self._is_nested

    @property
    def _slow(self) -> Any:
        if self._limited is None:
            # Imported here because few searches need it.
            import regex

            translated = _FOREIGN.sub(lambda match: match[1] or f"\\{match[0]}", self.pattern)
            self._limited = regex.compile(translated, regex.VERSION0)
        return self._limited

    def _in_time(self, search: Callable[..., Any], text: str) -> Any:
        try:
            return _waited_for(partial(search, text, timeout=CPU_SECONDS_MAX, concurrent=True))
        except TimeoutError:
            pattern_text = short_end(self.pattern, _SHOWN_MAX + 1)
            raise PatternTooSlow(
                f"the regular expression `{pattern_text}` found no answer within "
                f"{CPU_SECONDS_MAX:g} s of work in a text of {len(text):,} characters\n"
                "  Repeats inside repeats, as in `(a+)+`, are tried in every combination: write it "
                "without, or use `$contains`, `$starts` or `$ends`.",
                self.pattern,
            ) from None


def _compiled(pattern: str) -> re.Pattern[str]:
    if _size_of(_NO_CHOICE.sub(".", pattern)) > SIZE_MAX:
        raise re.error(f"its repeats are more than {SIZE_MAX:,} together", pattern)
    try:
        return re.compile(pattern)
    except OverflowError as error:
        raise re.error(str(error), pattern) from None
    except RecursionError:
        raise re.error("its groups are nested too deeply", pattern) from None


def _size_of(pattern: str) -> int:
    """Return the size of an expression with all counted repeats written out, as `regex` does."""
    sizes, last = [0], 0
    for match in re.finditer(r"\{\d*,?\d*\}|.", pattern, re.DOTALL):
        mark = match[0]
        if mark == "(":
            sizes.append(0)
            continue
        if mark == ")" and len(sizes) > 1:
            last = sizes.pop()
        elif len(mark) > 2:
            # The group or character itself was counted before its repeat.
            most = max(int(number or 1) for number in mark.strip("{}").split(","))
            last, sizes[-1] = last * most, sizes[-1] - last
        else:
            last = 1
        sizes[-1] += last
    return sum(sizes)


def _ways_through(pattern: str) -> int:
    """Return an upper bound of the paths through alternatives; groups in a row multiply."""
    open_groups, whole = [1], list[int]()
    for mark in re.findall(r"[(|)]", pattern):
        if mark == "(":
            open_groups.append(1)
        elif mark == "|":
            open_groups[-1] += 1
        else:
            whole.append(open_groups.pop())
    return math.prod((*whole, *open_groups))


def _waited_for(search: Callable[[], Any]) -> Any:
    """Return the result of a search; raise TimeoutError if it takes too long by either clock.

    The library counts CPU time, and a busy machine gives little of it. So the search runs in its
    own thread, without the interpreter's lock, and the caller waits by wall time; an abandoned
    search ends by CPU time. The thread does not belong to a run, even if a reply line's `when`
    starts it during one.
    """
    results: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()

    def look() -> None:
        try:
            results.append(search())
        except BaseException as problem:  # Raised again in the waiting thread.
            results.append(problem)
        finally:
            done.release()

    # Not the function of `_thread`, whose threads wait for their turn during a run.
    start_raw_thread(look, ())
    if not done.acquire(timeout=SECONDS_MAX):
        raise TimeoutError
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]

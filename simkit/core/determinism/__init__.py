"""Time, ids and chance for user code: answered from a scenario's virtual clock and its seed.

While a `World` is at work, whatever user code and its libraries ask of ``time``, ``datetime``,
``random``, ``secrets``, ``uuid``, ``os.urandom`` and numpy's global generator is answered by it.
Who asks from outside of the world (its context), and what only measures how long something real
takes (event loops, locks, pytest), gets the real answer: see `simkit.core.determinism.worlds`.

- `clocks`: the wall clock (by time-machine, in C) and the clocks that only go on
- `draws`: random bytes, seeds of generators, ids of libraries that are not written in Python
- `kept`: what a process keeps once and every world has for itself, such as `random`'s state
- `imports`: what a module draws or reads while it is imported
- `redirecting`: how a function written in C is made to call another, whoever holds it
"""

from simkit.core.determinism.imports import imported_here
from simkit.core.determinism.worlds import Clock, Still, World

__all__ = ["Clock", "Still", "World", "imported_here"]

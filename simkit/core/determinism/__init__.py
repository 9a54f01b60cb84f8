"""Time, ids and random numbers for user code, taken from a scenario's virtual clock and its seed.

While a `World` is installed, it answers the calls that user code and its libraries make to
``time``, ``datetime``, ``random``, ``secrets``, ``uuid``, ``os.urandom`` and numpy's global
generator. Code outside the world's context gets the real answer, and so does code that only
measures how long something real takes (event loops, locks, pytest): see
`simkit.core.determinism.worlds`.

- `clocks`: the wall clock (replaced by time-machine, in C) and the monotonic clocks
- `draws`: random bytes, seeds of generators, and ids of libraries written in C or Rust
- `library_rng`: values that a process has once and each world has for itself, like `random`'s state
- `imports`: values that a module draws or reads while it is imported
- `redirecting`: how a function written in C is made to call another, under every name it has
"""

from simkit.core.determinism.worlds import Still, World

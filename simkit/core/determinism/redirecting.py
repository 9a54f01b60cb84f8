"""Redirect a function written in C, also for code that imported it by name.

A builtin function is an object of four words after its head; the first two are its definition and
the object that it is bound to. Both are copied from another builtin, a method of our own object
that calls Python: errors, arguments and references work as usual, and no code of the interpreter is
changed. Only CPython is built like this; on other interpreters the name in the module is replaced.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

IS_POSSIBLE: Final = sys.implementation.name == "cpython"

_HEAD: Final = object.__basicsize__
"""Bytes of an object's head: its type and its reference count."""
_Words: Final = ctypes.c_void_p * 2


class Redirected:
    """A function written in C, of at most one argument, and the function in its place."""

    def __init__(self, module: ModuleType, name: str, arguments: int, answer: Any) -> None:
        """Prepare the redirection; ``answer`` gets the function's argument, or none as ``*_``."""
        self._module, self._name = module, name
        self._function: Any = getattr(module, name)
        self.is_in_c = IS_POSSIBLE and type(self._function) is type(len)
        """If false, the name in the module is replaced."""
        self._answer = _bound(answer, arguments) if self.is_in_c else answer
        self._before: tuple[Any, Any] | None = None
        self.original: Callable[..., Any] = (
            _copied(self._function) if self.is_in_c else self._function
        )
        """The original function, which still gives the real answer."""
        if self.is_in_c:
            # While redirected, the function holds a reference that is not counted otherwise.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._answer.__self__))

    def begin(self) -> None:
        """Redirect the function to the answer."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._answer)
            return
        words = _words(self._function)
        self._before = words[0], words[1]
        words[0], words[1] = _words(self._answer)

    def end(self) -> None:
        """Undo the redirection."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._function)
        elif self._before is not None:
            words = _words(self._function)
            words[0], words[1] = self._before
            self._before = None


class Recoded:
    """A Python function, and the code that runs in its place, under every name it has."""

    def __init__(self, function: Any, stand_in: Any) -> None:
        """Keep both codes; ``stand_in`` takes the same parameters and imports all that it uses."""
        self._function, self._code = function, stand_in.__code__
        self._before: CodeType = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        """A copy of the function with its original code."""

    def begin(self) -> None:
        """Run the replacement's code from now on."""
        self._before = self._function.__code__
        self._function.__code__ = self._code

    def end(self) -> None:
        """Run the original code again."""
        if self._function.__code__ is self._code:
            self._function.__code__ = self._before


def _words(function: Any) -> Any:
    return _Words.from_address(id(function) + _HEAD)


def _copied(function: Any) -> Callable[..., Any]:
    """Return a new function object with the same definition."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    copy: Callable[..., Any] = make(_words(function)[0], function.__self__, function.__module__)
    return copy


def _bound(answer: Any, arguments: int) -> Any:
    """Return a method written in C that calls a function of Python."""
    if arguments:
        # An empty mapping that calls the function itself for each key.
        kind = type("_ComputedMapping", (dict,), {"__missing__": staticmethod(answer)})
        return kind().__getitem__
    # The only builtin method without arguments that calls a function it was given.
    cache: Any = functools._lru_cache_wrapper(lambda: None, 0, False, answer)  # type: ignore[call-arg]
    return cache.cache_info

"""Redirect a function written in C, so that code that imported it by name is answered as well.

A builtin function is an object of four words after its head; the first two are its definition and
what it is bound to. Both are taken from another builtin, a method of an object of ours that calls
Python: errors, arguments and references go the usual way, and nothing of the interpreter's code
is touched. CPython alone is built so; elsewhere the name in the module is replaced.
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
"""The bytes of an object that hold its type and how often it is referred to."""
_Words: Final = ctypes.c_void_p * 2


class _ComputedMapping(dict[Any, Any]):
    """An empty mapping: what is asked of it by key is answered by a function."""

    answer: Callable[[Any], Any]

    def __missing__(self, key: Any) -> Any:
        return self.answer(key)


class Redirected:
    """A function written in C, of no argument or of one, and what answers in its place."""

    def __init__(self, module: ModuleType, name: str, arguments: int, answer: Any) -> None:
        """``answer`` is called as the function is; of no argument, it takes ``*_``."""
        self._module, self._name = module, name
        self._function: Any = getattr(module, name)
        self.is_in_c = IS_POSSIBLE and type(self._function) is type(len)
        """Else the name in the module is replaced."""
        self._answer = _bound(answer, arguments) if self.is_in_c else answer
        self._before: tuple[Any, Any] | None = None
        self.original: Callable[..., Any] = (
            _copied(self._function) if self.is_in_c else self._function
        )
        """The function itself, which goes on giving the real answer."""
        if self.is_in_c:
            # While it is redirected the function refers to it without having said so.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._answer.__self__))

    def begin(self) -> None:
        """Let the other function answer."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._answer)
            return
        words = _words(self._function)
        self._before = words[0], words[1]
        words[0], words[1] = _words(self._answer)

    def end(self) -> None:
        """Let the function itself answer again."""
        if not self.is_in_c:
            setattr(self._module, self._name, self._function)
        elif self._before is not None:
            words = _words(self._function)
            words[0], words[1] = self._before
            self._before = None


class Recoded:
    """A function written in Python, and the code that runs in its place, whoever holds it."""

    def __init__(self, function: Any, stand_in: Any) -> None:
        """``stand_in`` takes the same parameters, and finds nothing but what it imports itself."""
        self._function, self._code = function, stand_in.__code__
        self._before: CodeType = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        """The function itself, which goes on doing what it did."""

    def begin(self) -> None:
        """Let the other code run."""
        self._before = self._function.__code__
        self._function.__code__ = self._code

    def end(self) -> None:
        """Let the function's own code run again."""
        if self._function.__code__ is self._code:
            self._function.__code__ = self._before


def _words(function: Any) -> Any:
    return _Words.from_address(id(function) + _HEAD)


def _copied(function: Any) -> Callable[..., Any]:
    """Return another function object of the same definition."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    copy: Callable[..., Any] = make(_words(function)[0], function.__self__, function.__module__)
    return copy


def _bound(answer: Any, arguments: int) -> Any:
    """Return a method written in C that calls a function of Python."""
    if arguments:
        answers = _ComputedMapping()
        answers.answer = answer
        return answers.__getitem__
    # The one method without arguments that calls something it was given.
    cache: Any = functools._lru_cache_wrapper(lambda: None, 0, False, answer)  # type: ignore[call-arg]
    return cache.cache_info

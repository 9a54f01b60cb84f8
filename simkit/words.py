"""How messages word counts and long texts."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns ``1 scenario``, ``2 scenarios``; ``plural`` is for nouns that do not take an s."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def short(text: str, most: int) -> str:
    """Returns a text on one line, with its white space folded, cut to ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: max(most - 1, 0)] + "…"

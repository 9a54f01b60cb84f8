"""The tools of the agents."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool

FILES = {"src/auth.py": "def log_in(user): ...", "src/login.py": "from src.auth import log_in"}


@tool
def search_codebase(query: str, path: str = "/") -> list[str]:
    """Searches the code for files."""
    raise ConnectionError("the index of the code is not connected")


@tool
def read_file(path: str) -> str:
    """Returns what stands in a file."""
    if path not in FILES:
        raise FileNotFoundError(path)
    return FILES[path]


@tool
def search_docs(query: str) -> dict[str, Any]:
    """Searches the documentation."""
    raise ConnectionError("the documentation is not connected")


@tool
def search_code(query: str) -> dict[str, Any]:
    """Searches the code."""
    raise ConnectionError("the index of the code is not connected")


@tool
def look_up(title: str) -> dict[str, Any]:
    """Looks for pages of a title."""
    raise ConnectionError("the pages are not connected")


@tool
def create_doc(title: str) -> dict[str, Any]:
    """Creates a document."""
    raise ConnectionError("the pages are not connected")


@tool
def update_doc(id: int) -> dict[str, Any]:
    """Updates a document."""
    raise ConnectionError("the pages are not connected")

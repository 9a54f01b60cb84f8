"""The tools of the agents."""

from __future__ import annotations

from langchain_core.tools import tool

FILES = {
    "src/auth.py": "def log_in(user): ...",
    "src/login.py": "from src.auth import log_in",
}


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

"""The tool of `tools.pipeline.yaml` that really runs where a scenario does not answer for it."""

from __future__ import annotations

_FILES = {"src/auth.py": "def log_in(user): ...", "src/login.py": "from src.auth import log_in"}


def read_file(path: str) -> str:
    """Returns what stands in a file of the example; raises FileNotFoundError for any other."""
    if path not in _FILES:
        raise FileNotFoundError(path)
    return _FILES[path]

"""What the deterministic nodes of `lifecycle.pipeline.yaml` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def normalised(root: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request with single spaces and in lower case."""
    return {**root["input"], "request": " ".join(root["input"]["request"].lower().split())}

"""What a model means: an action as JSON, an action within words, or a thought."""

from __future__ import annotations

import json
import logging
from typing import Any

logger = logging.getLogger(__name__)


def parse_action(agent: str, reply: str) -> dict[str, Any]:
    """Return the action of a reply; a reply without JSON is a thought."""
    logger.debug("Parsing the reply of '%s' as JSON", agent)
    try:
        found = json.loads(reply)
    except ValueError:
        found = extracted(reply)
        if found is None:
            logger.warning("No JSON in the reply of '%s', which is kept as a thought", agent)
            return {"action": "think", "thought": reply}
        logger.debug("Extracted JSON from the reply of '%s'", agent)
    return found if isinstance(found, dict) else {"action": "think", "thought": reply}


def extracted(reply: str) -> Any:
    """Return the first JSON object within words; None if there is none."""
    decoder = json.JSONDecoder()
    for place, character in enumerate(reply):
        if character == "{":
            try:
                return decoder.raw_decode(reply, place)[0]
            except ValueError:
                continue
    return None

"""What a scenario, or a pipeline's file, cannot say of a program in a process of its own. Pure."""

from __future__ import annotations

from typing import Final

from simkit.language.yaml import Document
from simkit.spec.scenario.apps import AppOptions

_ADVICE: Final = {
    "tools": "The program asks for a scripted result itself: `POST /simkit/tool`.",
    "given": "The program is told `given: {state: …}` with a session's first turn.",
    "path": "`program` is started in the folder of its file.",
}


def check_program(document: Document, options: AppOptions) -> None:
    """Raises SourceError for the first option of an app that speaks of code in this process."""
    for key in AppOptions.model_fields:
        if key in options.model_fields_set and key != "env":
            raise document.error(
                ("app", key),
                f"`{key}` is about code that runs in simkit's own process, and this is a program",
                advice=_ADVICE.get(key, "Of `app`, a program has `env` alone."),
                key=True,
            )

"""What a shell completes where a command takes files or ids."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def complete_file(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the names of files and folders."""
    return [CompletionItem(incomplete, type="file")]


def complete_id(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the ids that `simkit explain` knows, in any case."""
    from simkit.spec.explanations import explanations

    return [
        CompletionItem(found.id, help=found.name or None)
        for found in explanations().values()
        if found.id.lower().startswith(incomplete.lower())
    ]

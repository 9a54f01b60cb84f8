"""Completion in the shell of arguments that are files or ids."""

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
        CompletionItem(entry.id, help=entry.name or None)
        for entry in explanations().values()
        if entry.id.lower().startswith(incomplete.lower())
    ]

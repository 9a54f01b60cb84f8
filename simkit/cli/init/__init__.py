"""``simkit init``: write a first test, of an app that is there or of a sample."""

from __future__ import annotations

import click


@click.command(name="init", epilog="Exit codes: 0 written, 2 something could not be.")
@click.argument("folder", metavar="[DIR]", required=False)
@click.option(
    "--app",
    default="",
    metavar="MODULE:NAME",
    help="Write the first scenario of this app: a function, an object, or a module that is an "
    "input() loop.",
)
@click.option("--say", "messages", multiple=True, metavar="TEXT", help="A user's message: `Hello`.")
@click.option(
    "--record",
    "is_recorded",
    is_flag=True,
    help="Ask the app's models, with your key; without it, scaffolded replies stand in.",
)
@click.option(
    "--call", default="", metavar="METHOD", help="The method that takes the message, of several."
)
@click.option(
    "--path",
    "folders",
    multiple=True,
    metavar="DIR",
    help="A folder from which the app's modules are imported, where they are not found.",
)
@click.option("--sample", "is_sample", is_flag=True, help="Write a sample project in any case.")
def command(
    folder: str | None,
    app: str,
    messages: tuple[str, ...],
    is_recorded: bool,
    call: str,
    folders: tuple[str, ...],
    is_sample: bool,
) -> int:
    """Write a first scenario, a feature, a workflow for GitHub, and settings of the editor.

    They are for an app in DIR (default: here), which is run once, or for a sample if there is no
    app. All of it passes at once, in a new process. Nothing is overwritten.
    """
    # Imported here because `simkit init --help` must not load what runs scenarios.
    from simkit.cli.init.first_test import AppRequest
    from simkit.cli.init.starting import start

    request = AppRequest(
        name=app, messages=messages, call=call, folders=folders, is_recorded=is_recorded
    )
    return start(folder or ".", request, is_sample=is_sample)

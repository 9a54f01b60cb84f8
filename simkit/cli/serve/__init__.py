"""``simkit serve``: answer programs in other languages from a scenario."""

from __future__ import annotations

import click

from simkit.cli.completion import complete_file


@click.command(
    name="serve",
    epilog="Exit codes: 0 all held, 1 findings, 2 broken; 2 also where the command given with "
    "--then fails. Ctrl-C ends it, and judges.",
)
@click.argument("scenario", metavar="PATH[::NAME]", shell_complete=complete_file)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes any free one.")
@click.option(
    "--then",
    "program",
    default="",
    metavar="COMMAND",
    help="Run this with the environment that points clients here, and judge at its end.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "json"]),
    default="shell",
    help="Without --then: how the environment is printed.",
)
@click.option(
    "--show",
    type=click.Choice(["context", "state", "events"]),
    default=None,
    help="Show every model call's messages, the state after each turn, or all events.",
)
def command(scenario: str, port: int, program: str, form: str, show: str | None) -> int:
    """Serve the providers' protocols on the loopback interface, and answer from a scenario.

    For programs that simkit cannot run in its own process. simkit recognizes the agent by the
    header `x-simkit-agent`, by a path `/agents/NAME/v1/…`, or by the scenario's rules under
    `agents`. A turn begins when a request's latest user message contains the turn's, or with a POST
    to `/simkit/next`.
    """
    # Imported here because `simkit serve --help` must not load the code that reads scenarios.
    from simkit.cli.serve.sessions import ServeOptions, serve

    return serve(
        ServeOptions(path=scenario, port=port, program=program, form=form, show=show or "")
    )

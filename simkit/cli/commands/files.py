"""The commands on files and on what can be looked up: `init`, `validate`, `doctor`, `explain`, …"""

from __future__ import annotations

import json
import os
from typing import Any

import click

from simkit.cli.commands import options as arg
from simkit.core.answers import answer, current_answer
from simkit.core.gc_pause import imports_frozen


@arg.cli.command(
    name="init",
    short_help="Write the first test of an app, or a sample project.",
    epilog="Exit codes: 0 written, 2 something could not be.",
)
@click.argument("folder", metavar="[DIR]", required=False)
@arg.word_option(
    "--app name",
    "MODULE:NAME",
    "Write the first scenario of this app: a function, an object, or a module that is an "
    "input() loop.",
)
@arg.words_option("--say messages", "TEXT", "A user's message: `Hello`.")
@arg.words_option(
    "--reply replies",
    "TEXT",
    "A model's answer, in order, where the app must be able to read it; for JSON the "
    'first that fits: `{"city": "Rome"}`.',
)
@arg.flag(
    "--record is_recorded",
    "Ask the app's models, with your key; without it, scaffolded replies stand in.",
)
@arg.word_option("--call", "METHOD", "The method that takes the message, of several.")
@arg.words_option(
    "--path folders",
    "DIR",
    "A folder from which the app's modules are imported, where they are not found.",
)
@arg.words_option(
    "--option pairs",
    "KEY=VALUE",
    "What the app needs beside the message, as below `app:` in a file: `env.SHOP=test`, "
    "`run_options=module:function`, `config.configurable.user_id=ada`.",
)
@arg.flag("--skill is_skill", "Write a skill for coding agents, and nothing else.")
@arg.flag("--sample is_sample", "Write a sample project in any case.")
def init_command(
    folder: str | None, is_sample: bool, is_skill: bool, pairs: tuple[str, ...], **request: Any
) -> int:
    """Write a first scenario, and a workflow for GitHub.

    They are for an app in DIR (default: here), which is run a few times, or for a sample if there
    is no code of agents. Where there are scenarios or features, only what runs them is written. All
    of it passes at once, in a new process. Nothing is overwritten.
    """
    with imports_frozen:
        from simkit.cli.init.first_scenario import AppRequest
        from simkit.cli.init.first_test import options_of, start, write_skill

    app = AppRequest(**request, options=options_of(pairs))
    if is_skill:
        return write_skill(folder or ".", app)
    return start(folder or ".", app, is_sample=is_sample)


@arg.cli.command(
    name="validate",
    short_help="Check files without running anything.",
    epilog="Exit codes: 0 no errors, 1 warnings and --strict, 2 errors.",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=arg.complete_file)
@arg.flag("--strict", "Warnings end with 1.")
@arg.form_option(
    "text", "json", "github", help="text for people, json for programs, github for a pull request."
)
def validate_command(paths: tuple[str, ...], strict: bool, form: str) -> int:
    """Check scenario and pipeline files without running them.

    PATH is a file or a folder (default: scenarios). All files are checked; of a document that
    cannot run, the first error is printed. docs/reference/validate.md explains the codes; a
    document turns one off with a reason: `lints: {VAL-14: kept for the next release}`.
    """
    with imports_frozen:
        from simkit import __version__
        from simkit.cli.selection import paths_or_default
        from simkit.cli.validate import checked, github_lines, json_text, verdict
        from simkit.core.output import echo, echo_commands, echo_json

    report = checked(paths_or_default(paths))
    code = 2 if report.count("E") else int(strict and report.count("W") > 0)
    if form == "json":
        echo_json(json_text(report, __version__, code))
        return code
    if form == "github":
        echo_commands(github_lines(report))
    else:
        for problem in report.problems:
            echo(problem.text, err=True)
    echo(verdict(report))
    return code


@arg.cli.command(
    name="expect",
    short_help="Write a first full set of claims for turns that have none.",
    epilog="Exit codes: 0 written, or nothing to write; 1 not written; 2 a file was broken.",
)
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH[::NAME]...", shell_complete=arg.complete_file
)
@arg.flag("--yes accepts_all", "Write without asking.")
def expect_command(paths: tuple[str, ...], accepts_all: bool) -> int:
    """Write claims for every turn that has no `expect:`, from a run of it.

    The claims cover agents, reply, contexts (sections and messages, without instructions),
    handoffs, tool calls and state. The command shows the difference first; on a terminal it asks
    for each file. Turns with claims stay unchanged. Read the new claims: they say what is, not what
    should be.
    """
    from simkit.cli.expect import expect
    from simkit.update.files import refuse_in_ci

    refuse_in_ci("simkit expect", os.environ)
    return expect(paths, accepts_all)


@arg.cli.command(
    name="schema", short_help="Print the JSON Schema of scenario and pipeline files, for editors."
)
@click.argument(
    "kind",
    type=arg.Words(["scenario", "simulation", "pipeline", "code", "program", "answers"]),
    required=False,
)
@click.option("-o", "file", type=click.Path(dir_okay=False), help="Write to this file instead.")
def schema_command(kind: str | None, file: str | None) -> None:
    """Print the JSON Schema of scenario and pipeline files, for editors.

    Without a KIND it accepts either kind of document, as files that hold both need it. Editors with
    the YAML language server read it from a first line
    `# yaml-language-server: $schema=simkit.schema.json`.
    """
    from simkit.core.output import echo_json
    from simkit.spec.json_schemas import schema_text

    text = schema_text(kind)
    answer(schema=json.loads(text))
    if file is None and current_answer() is None:
        echo_json(text)
        return
    from simkit.cli.view import write_file

    if file is not None:
        write_file(file, f"{text}\n".encode(), "-o")


@arg.cli.command(
    name="doctor",
    short_help="Show the installed client libraries and what simkit sees of them.",
    epilog="Exit codes: 0 all is well, 2 the scenario's pipeline cannot be run, or nothing of it "
    "was seen.",
)
@click.argument("scenario", metavar="[PATH[::NAME]]", default="", shell_complete=arg.complete_file)
def doctor_command(scenario: str) -> int:
    """Show the installed client libraries, how simkit observes them, and possible problems.

    With a scenario whose pipeline is code: run its first turn, and show how many model calls simkit
    saw, of which client, and how each was attributed to its agent; or why there was none.
    """
    from simkit.cli.doctor import environment_text, first_turn
    from simkit.core.output import echo

    echo(environment_text())
    if not scenario:
        return 0
    is_well, text = first_turn(scenario)
    echo(f"\n{text}")
    return 0 if is_well else 2


@arg.cli.command(
    name="explain", short_help="Explain a finding or an error by its id: cause and fix."
)
@click.argument("words", nargs=-1, metavar="[ID|MESSAGE]", shell_complete=arg.complete_id)
def explain_command(words: tuple[str, ...]) -> None:
    """Explain a finding or an error: what should hold, the usual cause, the fix.

    Takes an id (`HND-12`), a name (`context-ignored`), the type of an error (`ReplyMissing`), or a
    message as it was printed, in quotes. Without one it lists every id.
    """
    from simkit.cli.console import explanation_lines
    from simkit.core.output import echo
    from simkit.spec.lint_catalogue import explanation_of, explanations

    chosen = [explanation_of(" ".join(words))] if words else [*explanations().values()]
    answer(explanations=chosen)
    if not words:
        for explanation in chosen:
            echo(f"{explanation.title:<34} {explanation.severity or explanation.kind}")
        return
    echo("\n".join(explanation_lines(chosen[0])))


@arg.cli.group(
    name="bdd",
    short_help="List what the lines of a feature file may say.",
    invoke_without_command=False,
)
def bdd_command() -> None:
    """Feature files: what their lines may say."""


@bdd_command.command(name="steps")
@click.argument("word", required=False, default="")
@arg.flag("--all is_all", "List all steps, not only the most used.")
def steps(word: str, is_all: bool) -> int:
    """List the most used steps, each with an example; with a WORD, all that have it.

    Exit codes: 0 listed, 1 no step has the word.
    """
    from simkit.bdd.vocabulary import listed_steps
    from simkit.core.output import echo

    is_short = not (word or is_all)
    lines = list(listed_steps(word, is_short=is_short))
    answer(steps=lines)
    if not lines:
        echo(f"no step has the word `{word}`: `simkit bdd steps --all` lists all", err=True)
        return 1
    for line in lines:
        echo(line)
    if is_short:
        echo("All: `simkit bdd steps --all`. Those with a word: `simkit bdd steps handoff`.")
    return 0


# The command for coding agents: `mcp`


@arg.cli.command(
    name="mcp",
    short_help="Give coding agents the commands as MCP tools, over stdio.",
    epilog="Exit codes: 0 the agent closed the pipe, 2 the SDK of MCP is not installed.",
)
def mcp_command() -> int:
    """Serve the skill, init, validate, replay, explain, context, coverage, mutate as tools of MCP.

    A coding agent starts this itself: `{"mcpServers": {"simkit": {"command": "simkit", "args":
    ["mcp"]}}}`. Paths are those of the folder in which it is started.
    """
    with imports_frozen:
        from simkit.cli.tool_server import serve_tools

    return serve_tools()

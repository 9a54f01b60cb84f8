"""Put the pages of docs/ and of the root where the site's generator finds them.

The pages stay plain Markdown that a code host shows: a link to a file outside of docs/ is a
relative one. Here it becomes a link to the page that the site has of that file, or to the file at
the project's home.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parent.parent
HERE: Final = Path(__file__).resolve().parent

ROOT_PAGES: Final[Mapping[str, str]] = {
    "ARCHITECTURE.md": "explanation/architecture.md",
    "CONTRIBUTING.md": "explanation/contributing.md",
    "SECURITY.md": "explanation/security.md",
    "CHANGELOG.md": "reference/changelog.md",
}
"""Pages that have their usual place in the root, and where the site has them."""

Nav: TypeAlias = Sequence["str | tuple[str, str | Nav]"]

NAVIGATION: Final[Nav] = (
    ("Start", "index.md"),
    ("Tutorial", "tutorial.md"),
    (
        "How-to",
        (
            "how-to/README.md",
            (
                "Your pipeline",
                (
                    ("Your own code", "how-to/real-code.md"),
                    ("Programs, web applications", "how-to/programs.md"),
                    ("Handoffs, tools, state of code", "how-to/handoffs-in-code.md"),
                    ("What the code gets", "how-to/environment.md"),
                    ("A design and its code", "how-to/designs.md"),
                    ("LangGraph", "how-to/langgraph.md"),
                    ("OpenAI Agents SDK", "how-to/openai-agents.md"),
                    ("PydanticAI", "how-to/pydantic-ai.md"),
                    ("Google ADK", "how-to/google-adk.md"),
                    ("LlamaIndex, CrewAI", "how-to/frameworks.md"),
                    ("LiteLLM", "how-to/litellm.md"),
                    ("smolagents", "how-to/smolagents.md"),
                    ("Claude Agent SDK", "how-to/claude-agent-sdk.md"),
                    ("OpenTelemetry", "how-to/opentelemetry.md"),
                    ("Other languages", "how-to/serving.md"),
                    ("MCP servers, HTTP addresses", "how-to/servers.md"),
                    ("Exported traces", "how-to/traces.md"),
                    ("Coding agents", "how-to/coding-agents.md"),
                    ("Remote agents (A2A)", "how-to/remote-agents.md"),
                    ("Write an adapter", "how-to/adapters.md"),
                ),
            ),
            (
                "Your tests",
                (
                    ("YAML scenarios", "how-to/scenarios.md"),
                    ("Claims", "how-to/claims.md"),
                    ("Made-up people", "how-to/made-up.md"),
                    ("Python", "how-to/python.md"),
                    ("Gherkin features", "how-to/bdd.md"),
                    ("pytest and CI", "how-to/pytest.md"),
                    ("Accept new values", "how-to/accepting.md"),
                    ("Explore", "how-to/explore.md"),
                    (
                        "Profiles",
                        (
                            ("All profiles", "how-to/profiles/README.md"),
                            ("Overload", "how-to/profiles/overload.md"),
                            ("Chaos", "how-to/profiles/chaos.md"),
                            ("Models", "how-to/profiles/models.md"),
                            ("Users", "how-to/profiles/users.md"),
                            ("Races", "how-to/profiles/races.md"),
                            ("Restarts", "how-to/profiles/restarts.md"),
                            ("Long conversations", "how-to/profiles/long.md"),
                        ),
                    ),
                    ("Simulations", "how-to/simulations.md"),
                    ("The order of answers", "how-to/order-of-answers.md"),
                    ("Users with a model", "how-to/simulated-users.md"),
                    ("Large campaigns", "how-to/campaigns.md"),
                    ("See a run", "how-to/view.md"),
                    ("Coverage and mutation", "how-to/coverage.md"),
                ),
            ),
            (
                "Models and traffic",
                (
                    ("Live runs", "how-to/live.md"),
                    ("Prompt caches", "how-to/prompt-caches.md"),
                    ("Ask a judge", "how-to/judge.md"),
                    ("Cassettes", "how-to/cassettes.md"),
                    ("vcrpy", "how-to/vcr.md"),
                    ("Faults", "how-to/faults.md"),
                ),
            ),
            (
                "Coming from",
                (
                    ("LangChain's fakes", "how-to/migrating/langchain.md"),
                    ("openai-agents", "how-to/migrating/openai-agents.md"),
                    ("pytest-recording", "how-to/migrating/pytest-recording.md"),
                    ("tavern", "how-to/migrating/tavern.md"),
                ),
            ),
            ("What others are asked for", "how-to/others-ask.md"),
        ),
    ),
    (
        "Reference",
        (
            ("Commands", "reference/commands.md"),
            ("Commands that make tests", "reference/commands-making.md"),
            ("Pipelines", "reference/pipelines.md"),
            ("Contexts", "reference/contexts.md"),
            ("Flows and handoffs", "reference/flows.md"),
            ("Keys of files", ("reference/scenario-files.md", "reference/files/")),
            ("Adapter interface", "reference/adapters.md"),
            ("What programs tell", "reference/serve-protocol.md"),
            ("Reply extras", "reference/reply-extras.md"),
            ("Phrases of features", "reference/phrases.md"),
            ("Troubleshooting", "reference/troubleshooting.md"),
            ("Lints", "reference/lints.md"),
            ("Validation", "reference/validate.md"),
            ("Events", "reference/events.md"),
            ("Parts of events", "reference/event-parts.md"),
            ("Versions", "reference/versioning.md"),
            ("Changelog", "reference/changelog.md"),
        ),
    ),
    (
        "Explanation",
        (
            ("Architecture", "explanation/architecture.md"),
            ("Reference systems", ("explanation/reference-systems.md", "explanation/*/")),
            ("Found without a claim", "explanation/found-unasked.md"),
            ("Performance", "explanation/performance.md"),
            ("Decisions", ("decisions/",)),
            ("Contributing", "explanation/contributing.md"),
            ("Security", "explanation/security.md"),
            ("Releasing", "explanation/releasing.md"),
        ),
    ),
    ("Glossary", "glossary.md"),
)
"""Titles and pages, in order; a place that ends with `/` stands for every page in that folder."""

LINK: Final = re.compile(r"(\]\()((?!\w+:|#)[^)#\s]+)((?:#[^)\s]+)?\))")
FENCED: Final = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
LIST: Final = re.compile(r"^((?![-\s|#>]).+\n)(?=- )", re.MULTILINE)
"""A list right below a paragraph: the site's Markdown wants an empty line between them."""
DIAGRAM: Final = re.compile(r"^```mermaid$", re.MULTILINE)
"""The theme would fetch the library that draws them from another host; their source reads well."""


def stage(folder: Path) -> None:
    """Write the generator's configuration and every page into ``folder``."""
    pages = folder / "docs"
    for file in sorted((ROOT / "docs").rglob("*")):
        place = staged(file.relative_to(ROOT).as_posix())
        if file.suffix == ".md":
            _write_page(file, pages / place, place)
        elif file.is_file():
            (pages / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, pages / place)
    for name, place in ROOT_PAGES.items():
        _write_page(ROOT / name, pages / place, place)
    shutil.copytree(HERE / "assets", pages / "assets", dirs_exist_ok=True)
    entries = list(_entries(NAVIGATION, pages))
    settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
    head, tail = settings.split("# nav\n")
    (folder / "zensical.toml").write_text(f"{head}nav = {_toml(entries)}\n{tail}", encoding="utf-8")


def staged(name: str) -> str:
    """Return where the site has a file of the tree; an empty text if it has not."""
    if name in ROOT_PAGES:
        return ROOT_PAGES[name]
    if not name.startswith("docs/"):
        return ""
    place = name.removeprefix("docs/")
    return "index.md" if place == "README.md" else place


def _write_page(file: Path, target: Path, place: str) -> None:
    text = file.read_text(encoding="utf-8")
    text = page_text(text, file.relative_to(ROOT).as_posix(), place)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def page_text(text: str, name: str, place: str) -> str:
    """Return a page as the site has it: ``name`` is its file in the tree, ``place`` in the site."""
    home = source_address()

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link[2]))
        if target.startswith("docs/") and (ROOT / target).is_dir():
            # A site has no page of a folder: its README, or else its first page, is one.
            names = sorted(page.name for page in (ROOT / target).glob("*.md"))
            target += f"/{'README.md' if 'README.md' in names else names[0]}"
        goal = staged(target)
        if goal and not (ROOT / target).is_dir():
            return link[1] + os.path.relpath(goal, posixpath.dirname(place) or ".") + link[3]
        return f"{link[1]}{home}/{target}{link[3]}"

    parts = FENCED.split(DIAGRAM.sub("```text", text))
    parts[::2] = [LIST.sub(r"\1\n", LINK.sub(replaced, part)) for part in parts[::2]]
    return "".join(parts)


def source_address() -> str:
    """Return where the project keeps its files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Source"])


def _entries(nav: Nav, pages: Path) -> Iterator[Any]:
    for entry in nav:
        if isinstance(entry, str):
            if not entry.endswith("/"):
                yield entry
                continue
            for folder in sorted(pages.glob(entry)):
                yield from (
                    page.relative_to(pages).as_posix() for page in sorted(folder.glob("*.md"))
                )
        else:
            title, inside = entry
            yield {title: inside if isinstance(inside, str) else list(_entries(inside, pages))}


def _toml(value: Any) -> str:
    """Return a nested list as TOML writes it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(_toml, value)) + "]"

"""Implementation of ``simkit graph``: the picture of a pipeline, declared or seen in a run."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from simkit.cli.pages import make_default_folder, open_page, write_file, write_graph_page
from simkit.cli.selection import select
from simkit.cli.traces import SUFFIX, stored, trace_files
from simkit.core.errors import SourceError
from simkit.core.files import check_place
from simkit.core.output import current_redactor, echo, echo_picture, picture
from simkit.report.last_run import FOLDER
from simkit.report.results import Result
from simkit.runtime.compiled import compiled, facts_of
from simkit.session.simulate import run
from simkit.spec.pipeline.model import Limits, Pipeline
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import PIPELINE_SUFFIX, is_pipeline
from simkit.trace.store import redacted
from simkit.trace.views import view_of
from simkit.viewer import Graph, dot_text, graph_of, mermaid_text, together

DEFAULT: Final = str(Path(FOLDER, "graph.html"))
TEXTS: Final = {"mermaid": mermaid_text, "dot": dot_text}
FORMS: Final = ("page", *TEXTS)


def draw(path: str, form: str, file: str, opens: bool) -> int:
    """Draw the pipeline at a path: a pipeline, a scenario, or traces; return 0.

    Text is printed unless a file is named. A page is written and opened. Raise SimkitError if there
    is no pipeline, or several, or the file cannot be written.
    """
    if form == "page" and file:
        check_place(file, "-o")
    graphs = together(_graphs(path))
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs) or "none"
        raise SourceError(path, f"a picture is of one pipeline, and here are: {names}")
    if form == "page":
        if not file:
            make_default_folder()
        echo(f"{graphs[0].name or path}: wrote {write_graph_page(file or DEFAULT, path, graphs)}")
        open_page(file or DEFAULT, opens)
        return 0
    text = picture(TEXTS[form](graphs[0]))
    if file:
        write_file(file, f"{text}\n".encode(), "-o")
    else:
        echo_picture(text)
    return 0


def _graphs(path: str) -> Iterator[Graph]:
    file = path.partition("::")[0]
    if Path(file).is_dir() or file.endswith(SUFFIX):
        for name in trace_files(file):
            view = stored(name).view
            yield graph_of(view.pipeline, view)
        return
    library = Library()
    if file.endswith(PIPELINE_SUFFIX):
        for document in library.documents(file):
            if is_pipeline(document.data):
                subject = library.subject(document)
                if not isinstance(subject, Pipeline):
                    raise SourceError(
                        file,
                        "this pipeline is code, and only a run shows its agents",
                        advice="Name one of its scenarios, which is run for that, or a trace.",
                    )
                yield graph_of(facts_of(compiled(subject), Limits()))
        return
    for entry in select([path], library.cache).entries:
        if isinstance(entry, Result):
            raise SourceError(path, entry.error)
        prepared = library.prepared(entry)
        if isinstance(prepared.pipeline, Pipeline):
            yield graph_of(facts_of(compiled(prepared.pipeline), Limits()))
            continue
        # Output of a user's function must not be inside a picture.
        with contextlib.redirect_stdout(sys.stderr):
            trace = redacted(run(prepared), current_redactor().line)
        view = view_of(trace.events)
        yield graph_of(view.pipeline, view)

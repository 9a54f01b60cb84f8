"""An adapter that a third party might have written, installed in a folder as pip would do it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(r"\._[a-z]\w*")


class ThirdParty:
    """A folder with an adapter for a framework, its applications and its test."""

    def __init__(self, framework: str, folder: Path) -> None:
        """Copy the files of ``framework`` into a folder, with what pip writes of an adapter."""
        self.framework, self.folder = framework, folder
        for file in (ROOT / "tests" / "testing" / f"{framework}_adapter").glob("*.py"):
            # Where it is kept, pytest must not collect it.
            name = f"test_{framework}.py" if file.stem.endswith("_suite") else file.name
            shutil.copyfile(file, folder / name)
        metadata = folder / f"{framework}_simkit-1.0.dist-info"
        metadata.mkdir()
        head = f"Metadata-Version: 2.1\nName: {framework}-simkit\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(head)
        entry = f"[simkit.adapters]\n{framework} = {framework}_simkit\n"
        (metadata / "entry_points.txt").write_text(entry)
        (folder / "pytest.ini").write_text("[pytest]\n")

    def text(self, part: str) -> str:
        """Return the text of its file `<framework>_<part>.py`, or of its test."""
        return self._file(part).read_text(encoding="utf-8")

    def edit(self, part: str, right: str, wrong: str) -> None:
        """Write ``wrong`` in the place of ``right``, which stands in its file once.

        A private name of simkit would break the adapter in another way once it is renamed.
        """
        text = self.text(part)
        assert text.count(right) == 1, f"{part}: {right!r} stands there {text.count(right)} times"
        foreign = set(PRIVATE.findall(wrong)) - set(PRIVATE.findall(text))
        assert not foreign, f"{part}: {wrong!r} uses private names: {sorted(foreign)}"
        self._file(part).write_text(text.replace(right, wrong), encoding="utf-8")

    def _file(self, part: str) -> Path:
        name = f"test_{self.framework}" if part == "test" else f"{self.framework}_{part}"
        return self.folder / f"{name}.py"

    def pytest(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run its test with pytest, in a process of its own."""
        plugins = ("-p", "simkit.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")
        return self._run("pytest", "-q", "-rs", *plugins, *options)

    def simkit(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a command of simkit."""
        return self._run("simkit", *options)

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={
                **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "100", "NO_COLOR": "1",
            },
        )  # fmt: skip

"""Brings the examples that frameworks publish as packages: `python -m tests.upstream`.

They are other people's programs, so they are no part of this project: they are taken, unchanged,
from the package index, in the version that is installed, and put into a folder that git ignores.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDER = Path(__file__).parent / "apps" / "upstream"
COMMAND = "python -m tests.upstream"
PLACES = {"openai_agents": "examples", "pydantic_ai": "examples/pydantic_ai_examples"}
"""A folder for each framework, and where in it its examples are."""


def missing(framework: str) -> str:
    """Returns why a framework's examples cannot be run; empty where they are here."""
    if (FOLDER / framework / PLACES[framework]).is_dir():
        return ""
    return f"the examples of {framework} are not here: `{COMMAND}` brings them"


def bring() -> None:
    """Puts the examples of all installed frameworks in their places."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        version = metadata.version("openai-agents")
        source = _downloaded(folder, f"openai-agents=={version}", "--no-binary=openai-agents")
        with tarfile.open(source) as archive:
            # The first releases of Python 3.11 cannot say which members they trust.
            if hasattr(tarfile, "data_filter"):
                archive.extraction_filter = tarfile.data_filter
            archive.extractall(folder)
        unpacked = folder / source.name.removesuffix(".tar.gz")
        _put("openai_agents", unpacked / "examples")
        wheel = _downloaded(folder, "pydantic-ai-examples", "--only-binary=:all:")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "wheel")
        _put("pydantic_ai", folder / "wheel" / "pydantic_ai_examples")


def _downloaded(folder: Path, requirement: str, how: str) -> Path:
    target = folder / requirement.partition("=")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", how]
    subprocess.run([*command, "--dest", str(target), requirement], check=True)
    (result,) = target.iterdir()
    shutil.move(result, folder)
    return folder / result.name


def _put(framework: str, examples: Path) -> None:
    place = FOLDER / framework / PLACES[framework]
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(examples, place)
    print(f"{place.relative_to(FOLDER.parent.parent.parent)}: examples of {framework}")


if __name__ == "__main__":
    bring()

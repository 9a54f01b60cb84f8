"""Files that are read once: by whoever asks for their heads, or for their documents."""

from __future__ import annotations

from simkit.language.yaml.documents import Document, Head, heads_and_documents, load


class DocumentCache:
    """Keeps what was read: collecting wants heads, running wants documents, both cost the same.

    A file that has a fault below its heads is read again, so that it is told of when it is run.
    """

    def __init__(self) -> None:
        self._heads: dict[str, list[Head]] = {}
        self._documents: dict[str, list[Document]] = {}

    def heads(self, file: str) -> list[Head]:
        """Returns the head of each document of a file; raises SourceError."""
        if file not in self._heads:
            self._heads[file], documents = heads_and_documents(file)
            if documents:
                self._documents[file] = documents
        return self._heads[file]

    def documents(self, file: str) -> list[Document]:
        """Returns the documents of a file; raises SourceError."""
        if file not in self._documents:
            self._documents[file] = load(file)
        return self._documents[file]

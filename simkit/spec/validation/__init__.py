"""What is odd about files that could run: pure checks of documents, each a generator of flaws."""

"""The documentation as a site: `python -m website` builds it from the pages of docs/."""

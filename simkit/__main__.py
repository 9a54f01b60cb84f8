"""``python -m simkit``: the same as the command ``simkit``."""

from simkit.cli import main

if __name__ == "__main__":
    main()

"""The command line, which uses processes however few scenarios there are."""

from simkit.cli import main, processes

if __name__ == "__main__":
    processes.SIZE_MIN = 1  # type: ignore[misc]
    main()

"""`python -m recovery` is the command `recover`."""

from recovery.cli import main

if __name__ == "__main__":
    main()

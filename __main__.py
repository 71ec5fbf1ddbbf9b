"""`python -m gpudeck` is the `gpudeck` command."""

from .tui.cli import main

if __name__ == "__main__":
    raise SystemExit(main())

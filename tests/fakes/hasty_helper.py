"""A log helper that trusts a progress bar soon."""

from __future__ import annotations

from gpudeck.engine.logs import follow_main, progress


def main() -> None:
    progress._SETTLED_ELSE_S = 0.3
    follow_main.main()

"""The part of every job's script that is the same: bash, which needs coreutils, grep and /proc, and no Python."""

from __future__ import annotations

from importlib.resources import files

WRAPPER = (files(__name__.rpartition(".")[0]) / "wrapper.sh").read_text(encoding="utf-8")
"""Begins behind what `script` writes: the variables gd_token, gd_control, …, and the function gd_environment."""

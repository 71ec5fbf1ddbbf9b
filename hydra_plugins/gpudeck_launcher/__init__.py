"""Hydra's `hydra/launcher=gpudeck`: the jobs of a multirun as tasks of a deck. docs/programs.md tells how it is used.

Hydra finds this package by its place in the namespace `hydra_plugins`, and imports it whenever any program of Hydra's
starts: gpudeck is imported only when jobs are launched.
"""

"""A task as a [[task]] table for one trial: the same work, judged by nothing but whether it runs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..core.spec import TaskSpec
from ..runs.book import Entry
from ..runs.wanted import boot_mark
from ..taskfile.placeholders import MARKER, escaped, fill_markers, fill_shell
from ..taskfile.readers import RUN_VARIABLE


def entry_of(
    spec: TaskSpec,
    environ: Mapping[str, str],
    *,
    gpus: int | str,
    gpu_ids: Sequence[str],
    env: Mapping[str, str],
    limit_s: float,
) -> Entry:
    """Outputs, retries, on_oom, needs and watch rules are left out, and after *limit_s* it is stopped. *environ*: for
    {env.NAME}. *env* goes over the task's own."""
    text = _Texts(environ)
    command = spec.work.command
    policy, resources, extras = spec.policy, spec.resources, spec.extras
    own = {name: False if value is None else text.plain(value) for name, value in spec.work.env}
    found: dict[str, object] = {
        "command": text.shell(command) if isinstance(command, str) else [text.plain(word) for word in command],
        "cwd": escaped(spec.cwd),
        "python": escaped(spec.python),
        "gpus": gpus,
        "gpu_ids": list(gpu_ids),
        "cpus": resources.cpus,
        "memory": f"{resources.memory_mib}MiB" if resources.memory_mib else None,
        "launch": extras.launch,
        "nproc": extras.nproc if gpus == resources.gpus else None,
        "progress": {key: value for key, value in asdict(extras.progress).items() if value is not None}
        if extras.progress is not None
        else None,
        "timeout": limit_s,
        "grace": policy.grace_s,
        "stop_signal": policy.stop_signal,
        "stop_scope": policy.stop_scope,
        "success_codes": sorted(policy.success_codes),
        "leftovers": policy.leftovers,
        "linger": policy.linger_s,
        "stderr": "merge" if policy.merge_stderr else "separate",
        # As for `gpudeck run`: a trial is never taken for an earlier one, and ends with the boot that it began in.
        "env": {**own, **{name: escaped(value) for name, value in env.items()}}
        | {RUN_VARIABLE: f"{boot_mark()}-{secrets.token_hex(8)}"},
    }
    return {key: value for key, value in found.items() if value not in (None, "", [])}


class _Texts:
    """Finished texts as a task file would have them: literal, but for what is known only at a start."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def shell(self, command: str) -> str:
        return fill_shell(_literal(command), self._value, kept=_kept(command))

    def plain(self, text: str) -> str:
        kept = _kept(text)
        return fill_markers(_literal(text), lambda name: f"{{{name}}}" if name in kept else self._value(name))

    def _value(self, name: str) -> str:
        return escaped(self._environ.get(name.removeprefix("env."), ""))


def _kept(text: str) -> frozenset[str]:
    """Placeholders that the trial's own start fills in."""
    return frozenset(name for name in MARKER.findall(text) if not name.startswith("env."))


def _literal(text: str) -> str:
    """With all braces but those of markers as plain text."""
    pieces = MARKER.split(text)
    return "".join(f"\0{{{piece}}}" if at % 2 else escaped(piece) for at, piece in enumerate(pieces))

"""A job's script: what Slurm is asked for, and what runs once it is given. Pure: from an order to text.

The text is what sbatch gets and what is kept for people. What Slurm is asked for stands in its #SBATCH lines, so that
`sbatch attempt-1.sh` by hand asks for the same; behind them, the attempt as shell variables, and the wrapper.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import cast

from ...ports import JobOrder, StartOrder
from .calls import ASKED
from .parse import BATCH_MARK, MARK

SBATCH = ("sbatch", "--parsable", "--export=ALL")
"""On the script, opened: a call that is held up reads what it was called for, also once another submission of the
attempt has put another script in its place. Called with a small environment: all of it reaches the job."""

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_LENGTH = 60
_LONGEST_SIGNAL_S = 65535
_SPARE_S = 30
"""Slurm looks at limits so seldom."""
_WORDS = ("partition", "account", "qos", "constraint")
_LONG = {"-A": "--account", "-p": "--partition", "-q": "--qos"}


def job_name(task: str, token: str) -> str:
    """A name that no other job has: by it a submission is found whose answer was lost."""
    return f"{_NO_NAME.sub('-', task)[:_NAME_LENGTH].strip('-') or 'task'}-{token[:8]}"


def script(order: StartOrder, control: str) -> str:
    """The whole text, for a file written with surrogateescape. *control*: the folder of the files by which it tells
    what it does. Raises ValueError where the order has no job."""
    job = job_of(order)
    name = job_name(job.task, order.token)
    asked = ["--no-requeue", "--open-mode=append", *_logs(order), *_chdir(order), *resources(job)]
    header = [f"--job-name={name}", f"--comment={MARK}{order.token}", *asked]
    return "\n".join(
        [
            "#!/bin/bash -p",
            *header_lines(header),
            *(f"#SBATCH {line}" for line in extra_lines(job)),
            "",
            f"# {' '.join(job.task.split())}, attempt {job.attempt}",
            *_settings(order, job, control),
            environment(order.env, job.own_env),
            WRAPPER,
        ]
    )


def resources(job: JobOrder) -> list[str]:
    """Options of sbatch that jobs alike have in common."""
    options = job.options
    tasks = max(1, job.tasks_per_node)
    found = [f"--nodes={job.nodes}", f"--ntasks-per-node={tasks}"]
    if job.cpus is not None:
        found.append(f"--cpus-per-task={max(1, job.cpus // tasks)}")
    gres = str(options.get("gres", f"gpu:{job.gpus}" if job.gpus else ""))
    found += [f"--gres={gres}"] * bool(gres)
    found += [f"--mem={job.memory_mib}M"] if job.memory_mib is not None else []
    found += [f"--time={minutes(job.limit_s)}"] if job.limit_s is not None else []
    found += [f"--{key}={options[key]}" for key in _WORDS if options.get(key)]
    exclude = ",".join(filter(None, [str(options.get("exclude", "")), *job.exclude]))
    found += [f"--exclude={exclude}"] * bool(exclude)
    found += ["--exclusive"] * job.exclusive
    nodelist = str(options.get("nodelist", ""))
    found += [f"--nodelist={nodelist}"] * bool(nodelist and not ignored_nodelist(job))
    found.append(f"--signal=B:USR2@{_lead_s(job)}")
    return found


def header_lines(options: Iterable[str]) -> list[str]:
    """Options as sbatch reads them at the top of a script."""
    return [f"#SBATCH {_in_header(option)}" for option in options]


def extra_lines(job: JobOrder) -> list[str]:
    """Raw lines of the user's, which go last and so before ours."""
    return [line.removeprefix("#SBATCH").strip() for line in _lines(job, "extra")]


def unasked(environ: Mapping[str, str], job: JobOrder) -> dict[str, str]:
    """*environ* for the sbatch of a job, without what the job says itself: sbatch would heed its environment first."""
    words = [line.split("=", 1)[0].split()[0] for line in extra_lines(job) if line.split()]
    said = {f"--{key}" for key in _WORDS if job.options.get(key)}.union(_LONG.get(word[:2], word) for word in words)
    return {name: value for name, value in environ.items() if name not in ASKED or _option_of(name) not in said}


def _option_of(variable: str) -> str:
    return f"--{variable.removeprefix('SBATCH_').lower()}"


def ignored_nodelist(job: JobOrder) -> bool:
    """Whether its nodelist names several nodes for a task of one, which Slurm would give all of them."""
    return job.nodes == 1 and names_several(str(job.options.get("nodelist", "")))


def names_several(nodelist: str) -> bool:
    return any(mark in nodelist for mark in ",[")


def minutes(seconds: float) -> int:
    """Slurm counts limits in whole minutes."""
    return max(1, math.ceil(seconds / 60))


def job_of(order: StartOrder | None) -> JobOrder:
    """What a cluster needs to know of an attempt that this engine started on it. Raises ValueError for others."""
    if order is None or order.job is None:
        raise ValueError("an attempt that is not for a cluster")
    return order.job


def _lead_s(job: JobOrder) -> int:
    """How long before its limit the wrapper is told."""
    needed = job.grace_s + (job.warn_before_s if job.warn_signal else 0.0)
    return min(_LONGEST_SIGNAL_S, math.ceil(needed) + _SPARE_S)


def _logs(order: StartOrder) -> Iterator[str]:
    """Where Slurm itself writes of the job; the command's streams are opened by the wrapper."""
    yield f"--output={_log(order.stdout)}"
    if order.stderr != order.stdout:
        yield f"--error={_log(order.stderr)}"


def _log(path: str) -> str:
    """With a backslash Slurm would leave all % as they are; a line of the header cannot hold a line break."""
    return "/dev/null" if "\\" in path or _breaks(path) else path.replace("%", "%%")


def _chdir(order: StartOrder) -> Iterator[str]:
    """For those who look: the wrapper goes there itself, where Slurm would run elsewhere if it cannot."""
    if not _breaks(order.cwd):
        yield f"--chdir={order.cwd}"


def _breaks(text: str) -> bool:
    return any(mark in text for mark in "\n\r\0")


def _in_header(option: str) -> str:
    """As sbatch reads its lines: quotes hold blanks and #, a backslash whatever is next."""
    if re.fullmatch(r"[\w./:=,@%+-]+", option, re.ASCII):
        return option
    key, equals, value = option.partition("=")
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key}{equals}"{value}"'


def _settings(order: StartOrder, job: JobOrder, control: str) -> list[str]:
    values: Mapping[str, str] = {
        "gd_token": order.token,
        "gd_control": control,
        "gd_cwd": order.cwd,
        "gd_out": order.stdout,
        "gd_err": order.stderr,
        "gd_leftovers": order.leftovers,
        "gd_linger_s": f"{job.linger_s:g}",
        "gd_signal": job.stop_signal,
        "gd_scope": job.stop_scope,
        "gd_grace_s": f"{job.grace_s:.2f}",
        "gd_warn_signal": job.warn_signal or "",
        "gd_warn_before_s": f"{job.warn_before_s:.2f}",
        "gd_limit_s": str(60 * minutes(job.limit_s)) if job.limit_s is not None else "",
        "gd_lead_s": str(_lead_s(job)),
        "gd_gpus": str(job.gpus),
        "gd_tasks": str(job.tasks_per_node),
        "gd_ranks": str(max(1, job.ranks)),
        "gd_nodes": str(job.nodes),
        "gd_cpus": str(max(1, job.cpus // max(1, job.tasks_per_node))) if job.cpus is not None else "",
    }
    return [
        *(f"{name}={quoted(value)}" for name, value in values.items()),
        f"gd_setup={quoted(_setup(_lines(job, 'setup')))}",
        f"gd_argv=({' '.join(map(quoted, order.argv))})",
    ]


_SETUP_LINE = """\
{line}
gd_rc=$?
[ $gd_rc = 0 ] || {{ printf 'gpudeck: setup line {number} failed (exit code %s): %s\\n' $gd_rc {shown} >&2; exit 125; }}
"""
"""Lines share a shell, and the command gives way to it; the wrapper learns on descriptor 8 whether all went well."""


def _setup(lines: Sequence[str]) -> str:
    if not lines:
        return ""
    parts = [
        _SETUP_LINE.format(line=line, number=number, shown=quoted(" ".join(line.split())))
        for number, line in enumerate(lines, 1)
    ]
    return "".join(['gd_argv=("$@")\n', *parts, 'echo ready >&8; exec 8>&-; exec "${gd_argv[@]}"\n'])


def _lines(job: JobOrder, key: str) -> list[str]:
    said = job.options.get(key, ())
    return [str(line) for line in cast("Sequence[object]", said)] if isinstance(said, (list, tuple)) else []


_BODY = """\
mapfile -t -s $(({before} + SLURM_ARRAY_TASK_ID)) -n 1 gd_line <"$0"
eval ". ${{gd_line[0]}}"
exit 125"""
"""Each element reads its own of the lines that follow: bash would take milliseconds to understand a thousand."""


def asks(job: JobOrder) -> tuple[str, ...]:
    """What sbatch is told for it: jobs of which this is equal may share an array."""
    return (*resources(job), *extra_lines(job))


def array_name(orders: Sequence[StartOrder], batch: str) -> str:
    """A name that no other job has, after what its tasks are called alike: "train" of train-0.1, train-0.2."""
    alike = os.path.commonprefix([job_of(order).task for order in orders])  # noqa: RUF071  (of letters, as is meant)
    return job_name(re.sub(r"[^A-Za-z]+$", "", alike) or "tasks", batch)


def array_script(orders: Sequence[StartOrder], batch: str, *, at_once: int | None = None) -> str:
    """The text for sbatch. *orders*: alike, their scripts written; element N of the array is the Nth. *at_once*: so
    many of them run together at most."""
    jobs = [job_of(order) for order in orders]
    limit = f"%{at_once}" if at_once else ""
    header = [
        f"--job-name={array_name(orders, batch)}",
        f"--comment={BATCH_MARK}{batch}",
        f"--array=0-{len(jobs) - 1}{limit}",
        "--no-requeue",
        "--output=/dev/null",
        *resources(jobs[0]),
    ]
    lines = ["#!/bin/bash -p", *header_lines(header), *(f"#SBATCH {line}" for line in extra_lines(jobs[0])), ""]
    before = len(lines) + len(_BODY.splitlines())
    return "\n".join([*lines, _BODY.format(before=before), *(in_one_line(job.script) for job in jobs), ""])


WRAPPER = (files(__package__ or "") / "wrapper.sh").read_text(encoding="utf-8")
"""Begins behind what `script` writes: the variables gd_token, gd_control, …, and the function gd_environment."""


_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_SHELL = re.compile(
    r"gd_.*|BASH.*|LC_ALL|COMP_.*|EPOCH.*|IFS|ENV|UID|EUID|PPID|SHELLOPTS|POSIXLY_CORRECT|GLOBIGNORE|RANDOM|"
    r"SRANDOM|SECONDS|LINENO|HISTCMD|DIRSTACK|FUNCNAME|FUNCNEST|GROUPS|PIPESTATUS|TMOUT|CHILD_MAX|EXECIGNORE|IGNOREEOF|"
    r"histchars|OPTIND|OPTARG|OPTERR|REPLY|COPROC|PS4"
)
"""To these bash would give other values, or it would heed them."""
_OF_HOST = re.compile(
    r"SLURM_.*|SBATCH_.*|SRUN_.*|SSH_.*|DBUS_.*|CUDA_VISIBLE_DEVICES|HOSTNAME|PWD|OLDPWD|SHLVL|TMPDIR|XDG_RUNTIME_DIR|"
    r"DISPLAY|MASTER_ADDR|MASTER_PORT|_"
)
"""They mean the machine, or the session, in which the engine was started; the job's own hold, or none."""


def quoted(text: str) -> str:
    """One word of bash that means *text*, whatever it holds but NUL."""
    if _PLAIN.fullmatch(text):
        return text
    if "\r" in text:  # sbatch refuses scripts with the line breaks of DOS
        return _escaped(text)
    return "'" + text.replace("'", "'\\''") + "'"


def in_one_line(text: str) -> str:
    """As `quoted`, without line breaks."""
    return _escaped(text).replace("\n", "\\n") if "\n" in text else quoted(text)


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\r", "\\r")
    return f"$'{escaped}'"


def environment(env: Mapping[str, str], own: Collection[str]) -> str:
    """A function `gd_environment`, which exports what a shell can; and `gd_odd`, words for env(1) that say the rest.

    *own*: names that the task itself sets, or unsets: these go before what a host says.
    """
    kept = {name: value for name, value in env.items() if name in own or not _OF_HOST.fullmatch(name)}
    plain = {name: value for name, value in kept.items() if is_plain(name)}
    unset = sorted(name for name in own if name not in env)
    odd = [word for name in unset for word in ("-u", name)]
    odd += ["--", *(f"{name}={value}" for name, value in kept.items() if name not in plain)]
    return "\n".join(
        [
            "gd_environment() {",
            ":",
            *(f"export {name}={quoted(value)}" for name, value in plain.items()),
            "}",
            f"gd_odd=({' '.join(map(quoted, odd))})",
        ]
    )


def is_plain(name: str) -> bool:
    """Whether bash can export it and give it no meaning of its own."""
    return _IDENTIFIER.fullmatch(name) is not None and not _OF_SHELL.fullmatch(name)

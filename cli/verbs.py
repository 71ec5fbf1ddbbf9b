"""The words of the command line: for each command what it does, one example, and which options it has."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import options as o

Words = Literal["file", "select", "other", "none"]
"""What its bare words are: FILE and K=V; selectors; something of its own; it has none."""
Add = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    text: str
    """What it does, one line."""
    example: str
    adds: tuple[Add, ...] = ()
    words: Words = "file"
    hidden: bool = False
    short_file: bool = True
    """-f names the file; False: it means something else behind this command."""


_ACTS = (o.yes, o.state, o.as_root)
_VERBS = (o.json, *_ACTS)
_LOOKS = (o.state,)
_SHOWS = (o.colour, *_LOOKS)
"""In colours, on a terminal."""

DECK = "deck"
"""No command at all: a task file is run, or its engine followed. Nobody types this name."""

VERBS: dict[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            DECK,
            "run the training tasks of a task file on the GPUs of this box",
            "gpudeck --headless tasks.toml --only 'train-sym-*'",
            (o.file_words, o.deck_only, o.colour, o.as_root, *o.RUN),
            hidden=True,
        ),
        Verb(
            "run",
            "run one command on free GPUs, as soon as there are any: prints what it writes, ends with its exit code",
            "gpudeck run -n 2 -- python train.py --lr 0.1",
            (o.run, o.task_options, o.as_root),
            "other",
        ),
        Verb(
            "add",
            "put a command, or a task like another, into the task file and its deck; without one into your queue",
            "gpudeck add --like train-sym-0.5 --set lr=0.05",
            (o.add, o.profile, o.task_options, o.json, o.as_root),
            "other",
        ),
        Verb(
            "status",
            "how the deck stands: counts, what runs, what failed, why the rest waits",
            "gpudeck status --failed",
            (o.status, o.json, *_SHOWS),
            "none",
        ),
        Verb(
            "ls", "a line for each task", "gpudeck ls 'train-*' state:failed", (o.any_tasks, o.json, *_SHOWS), "select"
        ),
        Verb(
            "show",
            "everything about a task: command, environment, attempts, logs",
            "gpudeck show train-sym-0.5",
            (o.one_task, o.json, *_SHOWS),
            "select",
        ),
        Verb("explain", "why a task waits", "gpudeck explain gather", (o.one_task, o.json, *_SHOWS), "select"),
        Verb(
            "logs",
            "what tasks wrote; of failed ones standard error, too",
            "gpudeck logs train-sym-0.5 -f",
            (o.running_tasks, o.logs, *_SHOWS),
            "select",
            short_file=False,
        ),
        Verb(
            "wait",
            "wait until tasks have come to an end: exit 0 if all succeeded, 1 if not",
            "gpudeck wait 'train-*' --timeout 2h && make plots",
            (o.any_tasks, o.wait, o.json, *_LOOKS),
            "select",
        ),
        Verb(
            "attach",
            "follow a deck until its run ends: exit 0 if all succeeded, 1 if not; or sit down at the terminal of a "
            "`run -i`, and exit as its command does; Ctrl-C, there Ctrl-\\, leaves it",
            "gpudeck attach",
            (o.attach, *_SHOWS),
            "select",
        ),
        Verb(
            "retry",
            "run tasks again that have ended",
            "gpudeck retry state:failed --not-on 5",
            (o.some_tasks, o.retry, *_VERBS),
            "select",
        ),
        Verb(
            "cancel",
            "stop tasks, or take them off the queue",
            "gpudeck cancel 'train-asym-*'",
            (o.some_tasks, *_VERBS),
            "select",
        ),
        Verb(
            "kill",
            "stop tasks at once, without their grace",
            "gpudeck kill train-asym-0.5",
            (o.some_tasks, *_VERBS),
            "select",
        ),
        Verb("hold", "keep tasks from starting", "gpudeck hold tag:large", (o.some_tasks, *_VERBS), "select"),
        Verb("release", "let held tasks start", "gpudeck release tag:large", (o.some_tasks, *_VERBS), "select"),
        Verb(
            "priority",
            "let tasks start earlier or later",
            "gpudeck priority train-sym-0.5 10",
            (o.priority, *_VERBS),
            "select",
        ),
        Verb(
            "accept",
            "keep the results of changed or stale tasks as they are",
            "gpudeck accept state:changed",
            (o.some_tasks, *_VERBS),
            "select",
        ),
        Verb(
            "apply",
            "take up what has been changed in the task file",
            "gpudeck apply --dry-run",
            (o.dry_run, o.keep, *_VERBS),
            "none",
        ),
        Verb(
            "pause",
            "start nothing more in this run; what runs goes on",
            "gpudeck pause",
            (o.json, o.state, o.as_root),
            "none",
        ),
        Verb(
            "unpause", "start tasks again after pause or halt", "gpudeck unpause", (o.json, o.state, o.as_root), "none"
        ),
        Verb(
            "start",
            "run the deck without a screen: its engine, in the background",
            "gpudeck start tasks.toml",
            (o.file_words, o.start, o.json, o.as_root, *o.RUN),
        ),
        Verb(
            "stop",
            "end the engine; tasks run on and the next start adopts them",
            "gpudeck stop --tasks",
            (o.stop, o.json, o.state),
            "none",
        ),
        Verb("takeover", "open a deck whose host or container is gone", "gpudeck takeover", _ACTS, "none"),
        Verb(
            "table",
            "what the tasks came to: params and metrics",
            "gpudeck table --over seed --format latex",
            (o.any_tasks, o.table, *_LOOKS),
            "select",
        ),
        Verb(
            "compare",
            "two settings side by side: by how much they differ, how sure that is, how many more seeds would tell",
            "gpudeck compare method=adam method=sgd --over seed",
            (o.compare, o.json, *_SHOWS),
            "select",
        ),
        Verb(
            "report",
            "write what the deck came to as one HTML file: timeline, tasks, failures, metrics, GPUs over time",
            "gpudeck report -o sweep.html",
            (o.file_words, o.report, *_LOOKS),
        ),
        Verb(
            "fit",
            "the largest batch size, or other variable, that a task runs with on a GPU, by short trials",
            "gpudeck fit train-sym-0.5 --var batch_size=16..512",
            (o.fit, o.profile, o.json, o.as_root),
            "other",
        ),
        Verb(
            "init",
            "write a task file to begin with, or make tasks of the commands on standard input",
            "gpudeck init < commands.txt",
            (o.init,),
        ),
        Verb(
            "clean",
            "remove logs of attempts that are over; from your queue also what has ended",
            "gpudeck clean --older-than 30d --keep-last 2",
            (o.any_tasks, o.clean, o.yes, o.json, *_LOOKS),
            "select",
        ),
        Verb(
            "service",
            "run the deck's engine as a systemd service of yours: install, uninstall, status, show",
            "gpudeck service install tasks.toml --gpus 0-3",
            (o.service, o.as_root, *o.RUN),
            "other",
        ),
        Verb(
            "mcp",
            "the deck as tools for a coding agent (Model Context Protocol, on standard input and output)",
            "gpudeck mcp tasks.toml",
            (o.file_words, *_LOOKS),
        ),
        Verb(
            "completion",
            "print the script by which a shell completes gpudeck",
            "gpudeck completion bash > ~/.local/share/bash-completion/completions/gpudeck",
            (o.completion,),
            "other",
        ),
        Verb(
            "gpus",
            "the GPUs of this box, who uses them, which deck has them; or drain, enable, take one",
            "gpudeck gpus drain 3",
            (o.gpus, o.json, *_SHOWS, o.as_root),
            "other",
        ),
        Verb(
            "check",
            "say everything that is wrong with a task file",
            "gpudeck check tasks.toml",
            (o.file_words, o.json, o.some_of_the_file, o.named, o.gpus_of_a_run, o.backend),
        ),
        Verb(
            "doctor",
            "say what of driver, GPUs, the tasks' Python, disk and limits would keep training from running",
            "gpudeck doctor --distributed -n 2",
            (o.file_words, o.doctor, o.json, o.some_of_the_file, o.profile, o.gpus_of_a_run, o.log_dir, o.backend),
        ),
        Verb(
            "plan",
            "show what a start would run, where and when; with --backend slurm what each job asks for",
            "gpudeck plan --until 08:00",
            (o.file_words, o.plan, o.json, o.some_of_the_file, o.state, o.gpus_of_a_run, o.results, o.backend),
        ),
        Verb(
            "submit",
            "write the tasks as Slurm jobs that wait for each other, and a script that submits them; no engine runs",
            "gpudeck submit tasks.toml lr=0.1 --go",
            (o.file_words, o.submit, o.json, o.some_of_the_file, o.named, o.results),
        ),
        Verb("schema", "print the JSON Schema of the task file", "gpudeck schema > tasks.schema.json", words="none"),
        Verb(
            "env",
            "show the environment that tasks start from, or take this shell's",
            "gpudeck env --refresh",
            (o.file_words, o.env, o.json, o.state, o.as_root),
        ),
        Verb(
            "notify",
            "show who is told of failures and ends, or send them a message now",
            "gpudeck notify --test",
            (o.file_words, o.notify, o.state),
        ),
        Verb(
            "engine",
            "run a deck without a terminal, for clients: started by them and by systemd",
            "gpudeck engine tasks.toml",
            (o.file_words, o.engine, o.as_root),
            hidden=True,
        ),
    )
}
"""By name. `DECK` is what happens without a command."""


DAILY = {
    "run": ("start", "run", "add", "stop"),
    "look": ("status", "ls", "logs", "show", "explain", "gpus"),
    "act": ("retry", "cancel"),
}
"""What is typed every day, by what it is for; the other commands are named below them."""

_HABITS = {
    "restart rerun redo requeue": "`gpudeck retry SEL` runs tasks again",
    "resume continue": "`gpudeck unpause` goes on after a pause or a halt, `gpudeck start` with a run",
    "log tail cat output": "`gpudeck logs SEL` prints what tasks wrote, with -f also what they go on to write",
    "follow": "`gpudeck logs -f SEL` follows a task, `gpudeck attach` the deck",
    "ps list jobs squeue sacct": "`gpudeck ls` lists the tasks",
    "queue": "`gpudeck ls --queue` lists your single commands, `gpudeck --queue` opens their screen",
    "st stat stats": "`gpudeck status` tells how the deck stands",
    "sinfo nodes": "`gpudeck gpus` lists the GPUs, or the partitions of a cluster",
    "parallel slots": "`gpudeck --slots-per-gpu 2` runs two tasks on each GPU, `max_parallel` limits those of an entry",
    "group groups": "`gpudeck --gpus 0-3` gives a deck its share of the box; a `group` of the file has its own rounds",
    "version": "`gpudeck --version` prints it",
    "results scores metrics": "`gpudeck table` prints what tasks came to, `gpudeck compare` tells what is better",
    "history": "`gpudeck ls` lists the tasks, `gpudeck show TASK` the attempts of one",
    "web browser": "`gpudeck --web` shows the screen in a browser",
    "drain disable": "`gpudeck gpus drain N` starts nothing more on a GPU",
    "enable": "`gpudeck gpus enable N` gives a GPU back",
    "users who": "`gpudeck gpus` tells who is on which GPU",
    "top htop watch monitor nvtop nvitop nvidia-smi": "`gpudeck` opens the screen, `gpudeck gpus` lists the GPUs",
    "screen ui tui open dashboard new new-session": "`gpudeck` alone opens the screen",
    "rm remove delete scancel": "`gpudeck cancel SEL` ends tasks, `gpudeck clean` takes what has ended off your queue",
    "abort": "`gpudeck cancel SEL` ends tasks",
    "reset": "`gpudeck cancel '*'` ends all tasks, `gpudeck clean` takes what has ended off your queue",
    "sbatch push": "`gpudeck add -- CMD` adds a command to the task file here, else to your queue; arrays: `matrix`",
    "srun exec": "`gpudeck run -- CMD` runs a command on free GPUs, `gpudeck run -i` a shell",
    "shell bash sh srun-pty interactive salloc": "`gpudeck run -i -- bash` opens a shell on a free GPU",
    "describe info scontrol": "`gpudeck show TASK` tells everything about a task",
    "suspend": "`gpudeck pause` starts nothing more, `gpudeck hold SEL` keeps tasks from starting",
    "shutdown quit exit down kill-session kill-server": "`gpudeck stop` ends the engine",
    "up daemon": "`gpudeck start` runs the deck in the background",
    "edit reload update": "edit the task file, then `gpudeck apply` takes it up",
    "validate lint": "`gpudeck check` names what is wrong with a task file",
    "stash": "`gpudeck hold SEL` keeps tasks from starting",
    "unstash unhold enqueue": "`gpudeck release SEL` lets held tasks start, `gpudeck add -- CMD` queues a command",
    "nice renice": "`gpudeck priority SEL N` lets tasks start earlier or later",
    "why": "`gpudeck explain TASK` says why a task waits",
}
HABITS = {word: advice for words, advice in _HABITS.items() for word in words.split()}
"""What to type instead of words that users of pueue, tmux, Slurm, kubectl and the like have in their fingers."""

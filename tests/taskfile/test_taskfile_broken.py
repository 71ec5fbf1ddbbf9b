# ruff: noqa: E501 (the lines are exactly as users see them)

"""What is said of task files that are wrong: every problem, its line, what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpudeck.engine.errors import TaskFileError
from tests.inside.taskfile import RunOptions, load_settings
from tests.taskfile.loading import problems

SOUND = '[[task]]\nname = "a"\ncommand = "true"\n'

# fmt: off
KEYS = [
    ("gpus = -1", "gpus must be at least 0, got -1"),
    ("gpus = 1.5", 'gpus must be a whole number or "all", got 1.5'),
    ("gpus = true", 'gpus must be a whole number or "all", got true'),
    ('gpus = "two"', 'gpus must be a whole number or "all", got "two"'),
    ("retry = 3", 'unknown key "retry": did you mean retries?'),
    ('deps = ["a"]', 'unknown key "deps": did you mean needs?'),
    ('partition = "a100"', 'unknown key "partition": did you mean slurm.partition?'),
    ('mig_profile = "3g.20gb"', 'unknown key "mig_profile": did you mean gpu_ids?'),
    ('needs = ["b-{gpu_ids}"]', "needs has {gpu_ids}, which may not stand in needs and after"),
    ('outputs = ["out-{attempt}"]', "outputs has {attempt}, which is known only when a task starts: it may stand in command, env, resume_command and on_oom"),
    ("env = { SEED = 1 }", 'env.SEED must be text, or false to unset it: write "1"'),
    ("env = { SEED = true }", 'env.SEED must be text, or false to unset it: write "true"'),
    ('env.CUDA_VISIBLE_DEVICES = "0"', "env may not set CUDA_VISIBLE_DEVICES, gpudeck does: gpus and gpu_ids say which GPUs a task gets"),
    ('env_file = ".env"', "env_file names {folder}/.env: No such file or directory"),
    ('env_required = "HF_TOKEN"', 'env_required must be a list: write ["HF_TOKEN"]'),
    ('needs = ["b"]', 'needs has "b", which matches no task'),
    ('after = ["b-*"]', 'after has "b-*", which matches no task'),
    ('needs = ["a"]', 'needs has "a", which is only the task itself'),
    ('needs = ["a*"]', 'needs has "a*", which is only the task itself'),
    ("round = 1", "round = 1, but no task without a group is in an earlier round"),
    ('timeout = "6 hours"', 'timeout must be a duration such as "30s", "6h" or "1h30m", got "6 hours"'),
    ("timeout = 0", "timeout must be more than 0 seconds"),
    ("retries = 99999999999999999999", "retries must be at most 9007199254740992, got 99999999999999999999"),
    ("timeout = -5", "timeout must be at least 0 seconds, got -5"),
    ("memory = 40", 'memory needs a unit: write "40GiB" or "40MiB"'),
    ('gpu_memory = "40 gigs"', 'gpu_memory must be a size such as "24GiB" or "800MiB", got "40 gigs"'),
    ('stop_signal = "TERMINATE"', 'stop_signal must be a signal such as "TERM", "INT" or "USR1", got "TERMINATE"'),
    ('warn_signal = "USR1"', "warn_signal says nothing without a timeout"),
    ('retry_on = ["fail", "ooom"]', 'retry_on has "ooom", which is none of its words: did you mean "oom"?'),
    ("success_codes = [0, 300]", "success_codes must hold whole numbers from 0 to 255, got 300"),
    ("gpu_ids = [1, 1]", "gpu_ids names GPU 1 twice"),
    ('gpu_ids = ["x"]', 'gpu_ids has "x", which is no GPU id: a number from 0, or a UUID such as "GPU-5f2a…"'),
    ('gpu_ids = ["sim:2"]', 'gpu_ids has "sim:2"; simulated GPUs are asked for without a list: gpus = "sim:4"'),
    ("gpu_ids = [true]", 'gpu_ids has true, which is no GPU id: a number from 0, or a UUID such as "GPU-5f2a…"'),
    ('resume_when = "*.pt"', "resume_when says nothing without resume_command"),
    ("nproc = 4", 'nproc says nothing with launch = "command"'),
    ("on_oom = [{ vars = { bs = 16 } }]", "on_oom rung 1: changes bs, which is in neither matrix nor [vars]"),
    ("on_oom = [{ var = { bs = 16 } }]", 'on_oom rung 1: has the unknown key "var": did you mean vars?'),
    ('progress = "step ([0-9"', "progress is no regular expression: unterminated character set at position 6"),
    ("progress = { total = 5000 }", "progress needs regex: progress = { regex = 'iter (\\d+):', total = 5000 }"),
    ("progress = { regex = 'iter (\\d+):', total = 0 }", "progress.total must be at least 1, got 0"),
    ("progress = { regex = 'iter (\\d+):', totl = 5000 }", 'progress has the unknown key "totl": did you mean total?'),
    ('watch = { silent = "30m", action = "succeed" }', 'watch.action = "succeed" needs pattern: only a line can say that the work is done'),
    ('metrics.acc = "acc ([0-9.]+)"', 'metrics.acc needs to be told where it is found: { regex = \'…\' }, or { file = "…", key = "…" }'),
    ('metrics = ["acc:max"]', "metrics must be a table, got a list: write metrics.loss = { regex = 'loss: (\\S+)', best = \"min\" }"),
    ('metrics.acc = { best = "max" }', "metrics.acc needs either regex, or file and key"),
    ('metrics.acc = { regex = "a", best = "highest" }', 'metrics.acc.best must be "max", "min" or "last", got "highest"'),
    ('watch = { silence = "3m" }', 'watch has the unknown key "silence": did you mean silent?'),
    ('watch = { pattern = "(" }', "watch.pattern is no regular expression: missing ), unterminated subpattern at position 0"),
    ('slurm = { partion = "gpu" }', 'slurm has the unknown key "partion": did you mean partition?'),
    ('fingerprint_files = ["nothing.yaml"]', "fingerprint_files has nothing.yaml, which matches no file"),
    ('python = "/nowhere/bin/python"', "python names /nowhere/bin/python, which does not exist"),
    ('python = "conda:no-such-env"', 'python names the conda environment "no-such-env", which is not there: see conda env list'),
    ("shards = 0", "shards must be at least 1, got 0"),
    ("nodes = 0", "nodes must be at least 1, got 0"),
    ("tags = [1]", "tags must hold only text, got 1"),
    ("round = -1", "round must be at least 0, got -1"),
    ("group = []", "group must be text, got []"),
    ('metrics.acc = { file = "m.json" }', "metrics.acc needs key together with file"),
    ('env_file = "{attempt}"', "env_file has {attempt}, which is known only when a task starts: it may stand in command, env, resume_command and on_oom"),
    ('watch = { silent = "5m", idle_below = 10 }', "watch idle_below says nothing without idle_gpu"),
    ('watch = { idle_gpu = "5m", idle_below = 0 }', "watch.idle_below must be at least 1, got 0"),
    ('prune = { rule = "asha" }', 'prune needs metric: prune = { metric = "val_loss:min" }'),
    ("prune.metric = 3", 'prune.metric must be NAME:min or NAME:max such as "val_loss:min", got 3'),
    ('prune.metric = "loss"', 'prune.metric must be NAME:min or NAME:max such as "val_loss:min", got "loss"'),
    ('prune = { metric = "l:min", keep = 0.5 }', "prune.keep must be a whole number from 2 on with median, got 0.5"),
    ('prune = { metric = "l:min", rule = "asha", keep = 3 }', "prune.keep must be between 0 and 1 with asha, got 3"),
    ('prune = { metric = "l:min", at = [] }', "prune.at must hold numbers between 0 and 1 such as [0.25, 0.5], got []"),
    ('prune.metric = "a:min"\nmetrics.a = { regex = "a", best = "max" }', 'prune has metric = "a:min", but metrics.a has best = "max"'),
    ('watch = { action = "fail" }', "watch looks for nothing: say silent, idle_gpu, log_size or pattern"),
    ('watch.pattern = "{nan}"', "watch.pattern has {nan}, which is unknown: write {{nan}} for a literal brace"),
    ('"caf\\U000000e9" = 1', 'unknown key "café"'),
    ('"a\tb\\n" = 1', 'unknown key "a b\\n"'),
    ('warn_signal = "USR1"\ntimeout = "1m"', "warn_signal comes 5m before the end (warn_before), which is not shorter than the timeout"),
]
"""What comes below a sound task, and what is said of it in line 4."""
HEADS = [
    ('[deck]\ngpu = "all"', '2: [deck]: unknown key "gpu": did you mean gpus?'),
    ("[decks]", '1: unknown key "decks": did you mean deck?'),
    ('[vars]\npython = "x"', "2: [vars]: python is taken: {python} means something already"),
    ("[vars]\nnoise-rate = 1", "2: [vars]: noise-rate cannot stand in braces: call it noise_rate"),
    ("[slurm]\nmax_submitted = 0", "2: [slurm]: max_submitted must be at least 1, got 0"),
    ('[distributed]\nstrategy = "fsdp"', '2: [distributed]: strategy must be "auto", "single", "dp" or "ddp", got "fsdp": did you mean "dp"?'),
    ('[deck]\ngpus = "0-3,2"', "2: [deck]: gpus names GPU 2 twice"),
    ("[deck]\ngpus = 2", '2: [deck]: gpus = 2 may mean 2 GPUs or GPU 2: write "0-1" or "2"'),
    ("[deck]\ngpus = []", '2: [deck]: gpus names no GPU: write "none" for CPU only'),
    ('[deck]\ngpus = "3-0"', "2: [deck]: gpus has the range 3-0: the smaller number goes first"),
    ('[deck]\ngpus = "sim:0"', '2: [deck]: gpus must be "sim:N" with N from 1 to 1024 for simulated GPUs, got "sim:0"'),
    ("[deck]\nretires = 3", '2: [deck]: unknown key "retires": did you mean the task key retries?'),
    ("[deck]\nslots_per_gpu = 0", "2: [deck]: slots_per_gpu must be at least 1, got 0"),
    ('[deck]\nslots_per_gpu = { "0-3" = 2, "3" = 1 }', "2: [deck]: slots_per_gpu names GPU 3 twice"),
    ('[deck]\nhalt = "soon,fail=0"', '2: [deck]: halt needs a whole number of failures, at least 1, got "soon,fail=0"'),
    ('[budget]\ngpu_hours = 0', "2: [budget]: gpu_hours must be a number above 0, got 0"),
    ('[budget]\nuntil = "18:00"', '2: [budget]: until must be a date and a time such as "2026-12-01 22:00", got "18:00"'),
    ('[deck]\nhalt = "soon,early=3%"', '2: [deck]: halt needs a number of tasks after early=, got "soon,early=3%"'),
    ('[deck]\nhalt = "later"', '2: [deck]: halt must be "never", "soon,fail=3", "now,fail=1", "soon,fail=30%" or "soon,early=3", got "later"'),
    ('[deck]\nbetween = "20:00"', '2: [deck]: between must be two times of day, such as "20:00-08:00", got "20:00"'),
    ('[deck]\nbetween = "8:00-08:00"', '2: [deck]: between needs two different times, got "8:00-08:00"'),
    ('[deck]\nbegin = "24:00"', '2: [deck]: begin must be a time of day, or a date and a time, such as "22:00" or "2026-12-01 22:00", got "24:00"'),
    ('[deck]\nbegin = "2026-02-30 22:00"', '2: [deck]: begin has a date that no calendar has, got "2026-02-30 22:00"'),
    ('[deck]\norder = "longst"', '2: [deck]: order must be "file" or "longest", got "longst": did you mean "longest"?'),
    ("[deck]\nforeign_memory = 1024", '2: [deck]: foreign_memory needs a unit: write "1024GiB" or "1024MiB"'),
    ('[deck]\nskip_existing = "yes"', '2: [deck]: skip_existing must be true or false, got "yes"'),
    ('[defaults]\ntimout = "3h"', '2: [defaults]: unknown key "timout": did you mean timeout?'),
    ("[profile.smoke]\nvar = {}", '2: [profile.smoke]: unknown key "var": did you mean vars?'),
    ('[profile.smoke]\ndeck = { gpu = "none" }', '2: [profile.smoke]: unknown key "gpu": did you mean gpus?'),
    ('[vars]\na = "{b}"\nb = "{a}"', "2: [vars]: a is made of itself: a → b → a"),
    ("vars = 3", "1: [vars]: must be a table, got a number"),
    ('[defaults]\ngrace = "1s"\n[defaults.env]\nA = "1"\ntimeout = "6h"', "5: [defaults]: timeout stands below [defaults.env], so it is not the task's timeout: move it above that line"),
    ('[profile."a b"]', "1: [profile.a b]: use letters, digits and . _ - +, at most 60"),
    ("[defaults]\nngpus = 2", '2: [defaults]: unknown key "ngpus": did you mean gpus?'),
    ("[deck]\ngpus = 0", '2: [deck]: gpus = 0 may mean 0 GPUs or GPU 0: write "none" or "0"'),
    ("[deck]\ngpus = 1", '2: [deck]: gpus = 1 may mean 1 GPU or GPU 1: write "0" or "1"'),
    ('[deck]\ngpus = "0-99999"', "2: [deck]: gpus has the range 0-99999: more than 1024 GPUs are refused"),
    ('[deck]\nlog_dir = "{root}/logs"\n[vars]\nroot = "/data"', "2: [deck]: log_dir has a placeholder, and [deck] knows none"),
]
"""What stands above a sound task; the line to say, from its number on."""
NAMES = [
    ("a-{attempt}", "name has {attempt}, which may not stand in name"),
    ("a-{log_dir}", "name has {log_dir}, which may not stand in name"),
    ("a-{task}", "name has {task}, which may not stand in name"),
    ("a b", 'name "a b" has a space in it: use letters, digits and . _ - = , + @ /'),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 'name "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… has 121 bytes: at most 120 are allowed'),
    ("../x", 'name "../x" has a part of dots alone, which is another folder'),
    ("größe", 'name "größe" has "ö" in it: use letters, digits and . _ - = , + @ /'),
    ("a//b", 'name "a//b" begins with "-", or has an empty part beside a slash'),
    ("gpu0.log", 'name "gpu0.log" is taken in the log folder'),
]
COMMANDS = [
    ("[]", "command must not be empty"),
    ('"  "', "command must not be empty"),
    ("3", 'command must be text or a list such as ["python", "train.py"], got 3'),
    ('["a", ["b"]]', 'command must hold only text and numbers, got a list: ["b"]'),
    ('["awk", "{print}"]', "command has {print}, which is unknown: write {{print}} for a literal brace"),
    ('"x {shard}"', "command has {shard}, which means something only in a task with shards"),
    ('"x {env.NO_SUCH_VARIABLE}"', "command has {env.NO_SUCH_VARIABLE}, but NO_SUCH_VARIABLE is not set in the environment"),
    ('[""]', "command must not be empty"),
]
FILES: list[tuple[str, str, list[str]]] = [
    ("gpu_ids few", f"{SOUND}gpu_ids = [1]\ngpus = 2\n", ['5: task "a": gpus = 2, but gpu_ids names only 1']),
    ("no task", """
[deck]
name = "x"
""", [" there is no [[task]] in the file: write one, or `gpudeck add -- CMD`"]),
    ("single bracket task", """
[task]
name = "a"
command = "true"
""", ["1: write [[task]] with two brackets: there can be many"]),
    ("missing command", """
[[task]]
name = "a"
""", ['1: task "a": command is missing']),
    ("nothing is said of what belongs to a key that is wrong", """
[[task]]
name = "a b"
command = "true {shard}"
shards = 0
timeout = "soon"
warn_signal = "USR1"
gpus = 2
gpu_ids = [0, 0]
[[task]]
name = "c"
command = "true"
needs = ["a b"]
nodes = "two"
on_oom = [{ env = { NODES = "{nodes}" } }]
""", [
        '2: task "a b": name "a b" has a space in it: use letters, digits and . _ - = , + @ /',
        '4: task "a b": shards must be at least 1, got 0',
        '5: task "a b": timeout must be a duration such as "30s", "6h" or "1h30m", got "soon"',
        '8: task "a b": gpu_ids names GPU 0 twice',
        '13: task "c": nodes must be a whole number, got "two"',
    ]),
    ("a value that a rung puts inside quotes", """
[vars]
opts = "-x"
[[task]]
name = "a"
command = "sh -c 'train {opts}'"
on_oom = [{ env = { A = "1" } }, { vars = { opts = "-x -y" } }]
[[task]]
name = "b"
command = "true"
needs = ["a"]
""", ['6: task "a": on_oom rung 2: has {opts} inside quotes, where its value "-x -y" would need quotes of its own: take the quotes away, values are quoted anyway']),
    ("missing command and more", """
[[task]]
name = "a-{sed}"
gpus = -1
retries = "two"
matrix.seed = [1, 2]
env = { A = 1 }
on_oom = [{ vars = { bs = 8 } }]
resume_when = "x"
""", [
        '1: task "a-{sed}": command is missing',
        '2: task "a-{sed}": name has {sed}, which is unknown: did you mean {seed}? write {{sed}} for a literal brace',
        '3: task "a-{sed}": gpus must be at least 0, got -1',
        '4: task "a-{sed}": retries must be a whole number, got "two"',
        '6: task "a-{sed}": env.A must be text, or false to unset it: write "1"',
        '7: task "a-{sed}": on_oom rung 1: changes bs, which is in neither matrix nor [vars]: there are seed',
        '8: task "a-{sed}": resume_when says nothing without resume_command',
    ]),
    ("several mistakes of one combination", """
[[task]]
name = "a-{n}"
command = ["x", "{n}"]
matrix.case = [{ n = 1, t = "1h" }, { n = -1, t = "soon" }]
gpus = "{n}"
timeout = "{t}"
cwd = "sub-{n}"
python = "none-{n}"
fingerprint_files = ["gone-{n}"]
on_oom = [{ vars = { n = -1 } }]
""", [
        '5: task "a--1": gpus must be at least 0, got -1',
        '6: task "a--1": timeout must be a duration such as "30s", "6h" or "1h30m", got "soon"',
        '8: task "a-1": python names {folder}/none-1, which does not exist',
        '8: task "a--1": python names {folder}/none--1, which does not exist',
        '9: task "a-1": fingerprint_files has gone-1, which matches no file',
        '9: task "a--1": fingerprint_files has gone--1, which matches no file',
    ]),
    ("missing name and more", """
[[task]]
command = "train {zzz}"
shards = "gpus"
timeout = "soon"
""", [
        "1: task 1: name is missing",
        "2: task 1: command has {zzz}, which is unknown: write {{zzz}} for a literal brace",
        '4: task 1: timeout must be a duration such as "30s", "6h" or "1h30m", got "soon"',
    ]),
    ("empty axis and more", """
[[task]]
name = "a-{seed}"
matrix.seed = []
command = "train {seed} {sed}"
gpus = -1
""", [
        '3: task "a-{seed}": matrix.seed is an empty list, so there would be no task',
        '5: task "a-{seed}": gpus must be at least 0, got -1',
    ]),
    ("matrix without axes and more", """
[[task]]
name = "a b"
matrix = {}
command = "train"
gpus = -1
""", [
        '2: task "a b": name "a b" has a space in it: use letters, digits and . _ - = , + @ /',
        '3: task "a b": matrix has no axis: matrix.seed = [1, 2, 3]',
        '5: task "a b": gpus must be at least 0, got -1',
    ]),
    ("axes that are not known hide no other mistake", """
[[task]]
name = "a-{dataset}"
matrix.case = "{cases}"
command = "train {dataset}"
env = "{dataset}"
gpus = -1
""", [
        '3: task "a-{dataset}": matrix.case has {cases}, which is unknown: write {{cases}} for a literal brace',
        '6: task "a-{dataset}": gpus must be at least 0, got -1',
    ]),
    ("whole tables that are none", """
[vars]
words = "abc"
[[task]]
name = "a"
command = "true"
env = "{words}"
on_oom = "{zzz}"
[[task]]
name = "b"
command = "true"
env = "{task}"
on_oom = [{ vars = "{words}" }]
""", [
        '6: task "a": env must be a table, got text: "abc"',
        '7: task "a": on_oom has {zzz}, which is unknown: write {{zzz}} for a literal brace',
        '11: task "b": env must be a table, got text: "b"',
        '12: task "b": on_oom rung 1: vars must be a table, got text: "abc"',
    ]),
    ("a rung that makes a variable of itself", """
[vars]
bs = 32
out = "run-{bs}"
[[task]]
name = "a"
command = "train {out}"
on_oom = [{ vars = { bs = "{out}" } }]
""", ['7: task "a": on_oom rung 1: bs is made of itself: bs → out → bs']),
    ("values where quotes do not help", """
[vars]
root = "/my data"
[[task]]
name = "a"
command = '''echo "$(ls "{root}")"'''
[[task]]
name = "b"
command = '''
cat <<EOF
{root}
EOF
'''
[[task]]
name = "c"
command = "echo `ls {root}`"
""", [
        '5: task "a": command has {root} inside quotes, where its value "/my data" would need quotes of its own: take the quotes away, values are quoted anyway',
        '8: task "b": command has {root} behind a backtick, ${…, <<, # or the like, where its value "/my data" would need quotes of its own: pass it to the command in env, or write the command as a list',
        '15: task "c": command has {root} behind a backtick, ${…, <<, # or the like, where its value "/my data" would need quotes of its own: pass it to the command in env, or write the command as a list',
    ]),
    ("missing name", """
[[task]]
command = "true"
""", ["1: task 1: name is missing"]),
    ("empty task", """
[[task]]
""", [
        "1: task 1: name is missing",
        "1: task 1: command is missing",
    ]),
    ("unknown placeholder", """
[vars]
noise_type = "x"
[[task]]
name = "a"
command = "echo {noise_typ}"
""", ['5: task "a": command has {noise_typ}, which is unknown: did you mean {noise_type}? write {{noise_typ}} for a literal brace']),
    ("shard in name", """
[[task]]
name = "a-{shard}"
command = "true"
shards = 2
""", ['2: task "a-{shard}": name has {shard}, which may not stand in name']),
    ("name own folder", """
[[task]]
name = ".{kind}"
command = "true {kind}"
matrix.kind = ["snapshots", "jobs", "other"]
""", [
        '2: task ".{kind}": name ".snapshots" is taken in the log folder',
        '2: task ".{kind}": name ".jobs" is taken in the log folder',
    ]),
    ("name empty by value", """
[[task]]
name = "{x}"
command = "true"
matrix.x = ["", "b"]
""", ['2: task "{x}": name "" is empty']),
    ("missing matrix key", """
[[task]]
name = "train-{a}"
command = "true"
matrix.a = [1, 2]
matrix.seed = [1, 2, 3]
""", ['2: task "train-{a}": name has no {seed}, so 3 tasks would be "train-1": write name = "train-{a}-{seed}"']),
    ("duplicates two entries", """
[[task]]
name = "a"
command = "true"

[[task]]
name = "a"
command = "true"
""", ['6: task "a": name "a" is taken by the task in line 1']),
    ("duplicates values", """
[[task]]
name = "t{a}"
command = "true"
matrix.a = [1, 1]
""", ['2: task "t{a}": name "t1" is made by 2 combinations: their values are the same, or run into each other']),
    ("run together", """
[[task]]
name = "t{a}{b}"
command = "true"
matrix.a = [1, 11]
matrix.b = [11, 1]
""", ['2: task "t{a}{b}": name "t111" is made by 2 combinations: their values are the same, or run into each other']),
    ("clash vars", """
[vars]
seed = 1
[[task]]
name = "t{seed}"
command = "true"
matrix.seed = [1]
""", ['6: task "t{seed}": matrix.seed is also in [vars]: give one of them another name']),
    ("clash builtin", """
[[task]]
name = "t{task}"
command = "true"
matrix.task = [1]
""", ['4: task "t{task}": matrix.task is taken: {task} means something already']),
    ("matrix dash", """
[[task]]
name = "t"
command = "true"
matrix.noise-rate = [1]
""", ['4: task "t": matrix has "noise-rate", which cannot stand in braces: call it noise_rate']),
    ("matrix empty", """
[[task]]
name = "t"
command = "true"
matrix.seed = []
""", ['4: task "t": matrix.seed is an empty list, so there would be no task']),
    ("matrix scalar", """
[[task]]
name = "t"
command = "true"
matrix.seed = 3
""", ['4: task "t": matrix.seed must be a list such as [3], got a number: 3']),
    ("matrix var scalar", """
[vars]
seeds = 3
[[task]]
name = "t"
command = "true"
matrix.seed = "{seeds}"
""", ['6: task "t": matrix.seed must be a list, but {seeds} is a number: 3']),
    ("matrix unknown var", """
[vars]
seeds = [3]
[[task]]
name = "t"
command = "true"
matrix.seed = "{seds}"
""", ['6: task "t": matrix.seed has {seds}, which is unknown: did you mean {seeds}? write {{seds}} for a literal brace']),
    ("matrix mixed", """
[[task]]
name = "t"
command = "true"
matrix.case = [{a = 1}, 2]
""", ['4: task "t": matrix.case needs the keys a in all its tables: number 2 differs']),
    ("matrix uneven", """
[[task]]
name = "t"
command = "true"
matrix.case = [{a = 1, b = 2}, {a = 2}]
""", ['4: task "t": matrix.case needs the keys a, b in all its tables: number 2 differs']),
    ("exclude unknown", """
[[task]]
name = "t{alpha}"
command = "true"
matrix.alpha = [1]
matrix.exclude = [{alpa = 1}]
""", ['5: task "t{alpha}": matrix.exclude has alpa, which is no axis: did you mean alpha?']),
    ("exclude all", """
[[task]]
name = "t{a}"
command = "true"
matrix.a = [1]
matrix.exclude = [{a = 1}]
""", ['4: task "t{a}": matrix is empty: exclude leaves no combination']),
    ("include partial", """
[[task]]
name = "t{a}"
command = "x {lr}"
matrix.a = [1, 2]
matrix.include = [{a = 1, lr = 0.1}]
""", ['3: task "t{a}": command has {lr}, which matrix.include gives only to some combinations']),
    ("misplaced below matrix", """
[[task]]
name = "t{seed}"
[task.matrix]
seed = [1, 2]
command = ["true"]
""", ['5: task "t{seed}": command stands below [task.matrix], so it is not the task\'s command: move it above that line']),
    ("misplaced below env", """
[[task]]
name = "t"
command = "true"
[task.env]
A = "1"
gpus = 2
""", ['6: task "t": gpus stands below [task.env], so it is not the task\'s gpus: move it above that line']),
    ("misplaced watch", """
[[task]]
name = "t"
command = "true"
[task.watch]
silent = "1m"
retries = 2
""", ['6: task "t": retries stands below [task.watch], so it is not the task\'s retries: move it above that line']),
    ("misplaced metric", """
[[task]]
name = "t"
command = "true"
[task.metrics.acc]
regex = "a"
gpus = 2
""", ['6: task "t": gpus stands below [task.metrics.acc], so it is not the task\'s gpus: move it above that line']),
    ("needs typo", """
[[task]]
name = "a"
command = "true"
[[task]]
name = "prepare"
command = "true"
[[task]]
name = "c"
command = "true"
needs = ["prepar"]
""", ['10: task "c": needs has "prepar", which matches no task: did you mean prepare?']),
    ("needs beside other mistakes", """
[deck]
slots_per_gpu = 0
[[task]]
name = "prep-{i}"
matrix.i = [1, 2]
command = "true"
gpus = -1
needs = ["nothing", "prep-2"]
[[task]]
name = "train"
command = "true"
needs = ["prep-1", "prep-*", "preq-*", "prepare", "fine"]
[[task]]
name = "fine"
command = "true"
round = 3
""", [
        "2: [deck]: slots_per_gpu must be at least 1, got 0",
        '7: task "prep-{i}": gpus must be at least 0, got -1',
        '8: task "prep-1" (and 1 more): needs has "nothing", which matches no task',
        '8: task "prep-2": needs has "prep-2", which is only the task itself',
        '12: task "train": needs has "preq-*", which matches no task',
        '12: task "train": needs has "prepare", which matches no task: did you mean prep-2?',
    ]),
    ("needs beside an entry whose name is not known", """
[[task]]
command = "true"
[[task]]
name = "train"
command = "true"
needs = ["prepare"]
""", ["1: task 1: name is missing"]),
    ("needs beside shards that could not be made", """
[[task]]
name = "part"
shards = 4
command = "true"
gpus = -1
[[task]]
name = "train"
command = "true"
needs = ["part", "part-shard0", "part-shard[0-9]*", "other"]
""", [
        '5: task "part": gpus must be at least 0, got -1',
        '9: task "train": needs has "other", which matches no task',
    ]),
    ("needs disabled", """
[[task]]
name = "a"
command = "true"
needs = ["b"]
[[task]]
name = "b"
command = "true"
enabled = false
""", ['4: task "a": needs has "b", which is not enabled (line 5)']),
    ("needs disabled shards", """
[[task]]
name = "a"
command = "true"
needs = ["b"]
[[task]]
name = "b"
command = "true"
shards = 2
enabled = false
""", ['4: task "a": needs has "b", which is not enabled (line 5)']),
    ("cycle", """
[[task]]
name = "a"
command = "true"
needs = ["b"]
[[task]]
name = "b"
command = "true"
after = ["a"]
""", ['4: task "a": needs make a circle: a needs b, b comes after a']),
    ("cycle rounds", """
[[task]]
name = "a"
command = "true"
needs = ["b"]
[[task]]
name = "b"
command = "true"
round = 1
""", ['4: task "a": needs make a circle: a needs b, b (round 1) waits for a (round 0)']),
    ("cycle from a round", """
[[task]]
name = "a"
command = "true"
round = 1
[[task]]
name = "b"
command = "true"
needs = ["a"]
""", ['4: task "a": round makes a circle: a (round 1) waits for b (round 0), b needs a']),
    ("cycle from a round beside needs of its own", """
[[task]]
name = "a"
command = "true"
needs = ["c"]
round = 1
[[task]]
name = "b"
command = "true"
after = ["a"]
[[task]]
name = "c"
command = "true"
""", ['5: task "a": round makes a circle: a (round 1) waits for b (round 0), b comes after a']),
    ("cycle from after", """
[[task]]
name = "a"
command = "true"
after = ["b"]
[[task]]
name = "b"
command = "true"
needs = ["a"]
""", ['4: task "a": after makes a circle: a comes after b, b needs a']),
    ("cycle glob", """
[[task]]
name = "t{i}"
command = "true"
matrix.i = [1, 2, 3]
needs = ["t*"]
""", ['5: task "t1": needs make a circle: t1 needs t2, t2 needs t1']),
    ("round group", """
[[task]]
name = "a"
command = "true"
[[task]]
name = "b{i}"
command = "true"
round = 1
group = "g"
matrix.i = [1, 2]
""", ['7: task "b1" (and 1 more): round = 1, but no task of group "g" is in an earlier round']),
    ("on_oom nothing", """
[vars]
bs = 32
[[task]]
name = "a"
command = "true"
on_oom = [{ vars = { bs = 16 } }]
""", ['6: task "a": on_oom rung 1 changes neither the command nor the environment, nor what it asks for']),
    ("quotes", """
[vars]
root = "/my data"
[[task]]
name = "a"
command = "ls '{root}'"
""", ['5: task "a": command has {root} inside quotes, where its value "/my data" would need quotes of its own: take the quotes away, values are quoted anyway']),
    ("quotes matrix", '''
[[task]]
name = "a{i}"
command = """python -c "print({x})" """
matrix.i = [1]
matrix.x = ["a b"]
''', ['3: task "a1": command has {x} inside quotes, where its value "a b" would need quotes of its own: take the quotes away, values are quoted anyway']),
    ("table for a list, date for a table", """
[[task]]
name = "a-{x}"
command = "echo {x}"
matrix.x = { a = 1 }
[[task]]
name = "b"
command = "true"
env = 2026-01-01
""", [
        '4: task "a-{x}": matrix.x must be a list such as [{"a":1}], got a table: {"a":1}',
        '8: task "b": env must be a table, got a date: "2026-01-01"',
    ]),
    ("toml syntax", """
[[task]]
name = "a
""", ["2: a quote is not closed on its line (column 10)"]),
    ("toml value", """
[[task]]
name = a
""", ["2: this is no TOML value (text needs quotes) (column 8)"]),
    ("toml twice", """
[[task]]
name = "a"
name = "b"
""", ["3: this key is there twice: name (column 11)"]),
    ("toml open list", """
[[task]]
name = "a"
command = ["x",
""", ["3: the file ends inside a list or text that is not closed"]),
    ("nul", r"""
[[task]]
name = "a"
command = "x\u0000"
""", ["3: no text may hold a NUL character: it would end the text where it stands"]),
    ("defaults value", """
[defaults]
gpus = -1
[[task]]
name = "a"
command = "true"
[[task]]
name = "b"
command = "true"
""", ["2: [defaults]: gpus must be at least 0, got -1"]),
    ("shards moving", """
[[task]]
name = "a{i}"
command = "true"
matrix.i = [1]
shards = "{i}"
""", ['5: task "a{i}": shards has {i}, which differs between the tasks of the entry, so it may not stand here']),
    ("priority text", """
[[task]]
name = "a{i}"
command = "true"
matrix.i = ["x", "y"]
priority = "{i}"
""", [
        '5: task "ax": priority must be a whole number, got "x"',
        '5: task "ay": priority must be a whole number, got "y"',
    ]),
    ("several", """
[deck]
gpus = "0,0"
[[task]]
name = "a"
command = "true"
gpus = -1
retries = "x"
[[task]]
name = "b c"
command = "{q}"
""", [
        "2: [deck]: gpus names GPU 0 twice",
        '6: task "a": gpus must be at least 0, got -1',
        '7: task "a": retries must be a whole number, got "x"',
        '9: task "b c": name "b c" has a space in it: use letters, digits and . _ - = , + @ /',
        '10: task "b c": command has {q}, which is unknown: write {{q}} for a literal brace',
    ]),
    ("after multiline", '''
[[task]]
name = "a"
command = """
[[task]]
gpus = 3
"""
gpus = -1
''', ['7: task "a": gpus must be at least 0, got -1']),
    ("huge matrix", """
[[task]]
name = "a"
command = "x"
matrix.a0 = [1,2,3,4,5,6,7,8,9,10]
matrix.a1 = [1,2,3,4,5,6,7,8,9,10]
matrix.a2 = [1,2,3,4,5,6,7,8,9,10]
matrix.a3 = [1,2,3,4,5,6,7,8,9,10]
matrix.a4 = [1,2,3,4,5,6,7,8,9,10]
matrix.a5 = [1,2,3,4,5,6,7,8,9,10]
matrix.a6 = [1,2,3,4,5,6,7,8,9,10]
""", ['4: task "a": matrix makes 10,000,000 tasks; more than 1,000,000 are refused']),
    ("name and command and policy", """
[[task]]
name = "b c"
command = "{q}"
warn_signal = "USR1"
""", [
        '2: task "b c": name "b c" has a space in it: use letters, digits and . _ - = , + @ /',
        '3: task "b c": command has {q}, which is unknown: write {{q}} for a literal brace',
        '4: task "b c": warn_signal says nothing without a timeout',
    ]),
    ("deck and needs", """
[deck]
keep_free = -1
[[task]]
name = "a"
command = "true"
needs = ["b"]
""", [
        "2: [deck]: keep_free must be at least 0, got -1",
        '6: task "a": needs has "b", which matches no task',
    ]),
    ("task not a table", """
task = [1]
""", ["1: task 1: must be a table, got a number"]),
    ("inline tasks", """
task = [
  { name = "a", command = "true" },
  { name = "b", command = "true", gpus = -1 },
]
""", ['1: task "b": gpus must be at least 0, got -1']),
    ("include key clash", """
[vars]
lr = 1
[[task]]
name = "t{a}"
command = "x"
matrix.a = [1, 2]
matrix.include = [{a = 1, lr = 0.1}]
""", ['6: task "t{a}": matrix.lr is also in [vars]: give one of them another name']),
    ("defaults with a placeholder that one task lacks", """
[defaults]
env.SEED = "{seed}"
[[task]]
name = "a{seed}"
command = "x"
matrix.seed = [1]
[[task]]
name = "b"
command = "x"
""", ['2: task "b": env.SEED has {seed}, which is unknown: write {{seed}} for a literal brace']),
    ("shard names collide", """
[[task]]
name = "a"
command = "true"
shards = 2
[[task]]
name = "a-shard1"
command = "true"
""", ['6: task "a-shard1": name "a-shard1" is taken by the task in line 1']),
    ("python by matrix", """
[[task]]
name = "a{p}"
command = "x"
matrix.p = ["/no/where"]
python = "{p}"
""", ['5: task "a/no/where": python names /no/where, which does not exist']),
    ("table in command by value", """
[[task]]
name = "a"
command = "{c}"
matrix.c = [{a = 1}]
""", ['3: task "a": command has {c}, which is an axis of tables: use their keys (a)']),
    ("nothing enabled", """
[[task]]
name = "a"
command = "true"
enabled = false
""", [" no task is enabled"]),
    ("log folder inside quotes", """
[deck]
log_dir = "/my logs"
[[task]]
name = "a"
command = "sh -c 'ls {log_dir}'"
""", ['5: task "a": command has {log_dir} inside quotes, where its value "/my logs" would need quotes of its own: take the quotes away, values are quoted anyway']),
    ("control characters are shown, not sent to the terminal", """
[[task]]
name = "a\\u001b[31m"
command = "true"
""", ['2: task "a\\x1b[31m": name "a\\u001b[31m" has "\\u001b" in it: use letters, digits and . _ - = , + @ /']),
    ("misplaced below the env of a profile's defaults", """
[[task]]
name = "a"
command = "true"
[profile.smoke.defaults.env]
A = "1"
timeout = "3m"
""", ["6: [profile.smoke]: timeout stands below [profile.smoke.defaults.env], so it is not the task's timeout: move it above that line"]),
    ("misplaced below include", """
[[task]]
name = "t{seed}"
command = "x {seed}"
matrix.seed = [1, 2]
[[task.matrix.include]]
seed = 1
timeout = "6h"
""", ['7: task "t{seed}": timeout stands below [task.matrix.include], so it is not the task\'s timeout: move it above that line']),
    ("misplaced below the env of a rung", """
[[task]]
name = "a"
command = "true"
[[task.on_oom]]
[task.on_oom.env]
BATCH = "8"
timeout = "6h"
""", ['7: task "a": timeout stands below [task.on_oom.env], so it is not the task\'s timeout: move it above that line']),
    ("profile that is not chosen", """
[profile.smoke]
vars = { task = 1 }
deck = { gpus = -4 }
defaults = { timeout = -1, retries = "{n}" }
[[task]]
name = "a"
command = "true"
""", [
        "2: [profile.smoke]: task is taken: {task} means something already",
        '3: [profile.smoke]: gpus must be a list of GPU ids such as [0, 1] or "0-3,6", got -4',
        "4: [profile.smoke]: timeout must be at least 0 seconds, got -1",
    ]),
    ("keys of the other table", """
prune = { by = "loss" }
halt = "never"
[deck]
timeout = "6h"
[[task]]
name = "a"
command = "true"
slots_per_gpu = 2
""", [
        '1: unknown key "prune": it is a key of tasks, and of [defaults] for all of them',
        '2: unknown key "halt": it is a key of [deck]',
        '4: [deck]: unknown key "timeout": it is a key of tasks, and of [defaults] for all of them',
        '8: task "a": unknown key "slots_per_gpu": it is a key of [deck]',
    ]),
    ("dotted key of very many parts", f"""
[[task]]
name = "a"
command = "true"
[vars]
{".".join(["a"] * 3500)} = 1
""", ["5: lists or tables are nested more than 100 deep"]),
    ("very many brackets", f'''
[[task]]
name = "a"
command = "true"
[vars]
text = "{"[" * 2000}"
x = {"[" * 2000 + "]" * 2000}
''', ["6: lists or tables are nested more than 100 deep"]),
    ("numbers of very many digits", f"""
[[task]]
name = "a"
command = "true {"1" * 2000}"
[vars]
x = 0x{"f" * 9000}
y = {"1" * 9000}
""", ["5: a number has more than 1,000 digits"]),
    ("vars that grow tenfold with each line", """
[vars]
a0 = "0123456789"
"""
        + "".join(f'a{number} = "{f"{{a{number - 1}}}" * 10}"\n' for number in range(1, 6))
        + """
[[task]]
name = "a"
command = "true"
""", ["7: [vars]: a5 is too long: placeholders put more than 1,000,000 characters into [vars]"]),
    ("lists in vars that hold the one above ten times", f"""
[vars]
a0 = ["{"x" * 10_000}"]
"""
        + "".join(f"a{number} = {[f'{{a{number - 1}}}'] * 10}\n" for number in range(1, 3))
        + """
[[task]]
name = "a"
command = "true"
""", ["4: [vars]: a2 is too long: placeholders put more than 1,000,000 characters into [vars]"]),
    ("vars made of vars made of vars", """
[[task]]
name = "a"
command = "true"
[vars]
"""
        + "".join(f'a{number} = "{{a{number + 1}}}"\n' for number in range(101))
        + 'a101 = "end"', ["5: [vars]: a0 is made of vars that are made of others, more than 100 in a row"]),
    ("lists in vars around the one above", """
[[task]]
name = "a"
command = "true"
[vars]
a0 = [1]
"""
        + "".join(f'a{number} = ["{{a{number - 1}}}"]\n' for number in range(1, 101)), ["105: [vars]: a100 is nested more than 100 deep"]),
    ("more tasks than are ever run", """
[[task]]
name = "first-{i}"
command = "true"
matrix.i = [1, 2]
[[task]]
name = "a-{i}"
command = "true"
shards = 100_000
matrix.i = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
""", ['8: task "a-{i}": shards makes 1,000,000 tasks, the file 1,000,002; more than 1,000,000 are refused']),
]
"""A title, a file without its first (empty) line, the lines to say, from their numbers on; {folder} is where the file lies."""
# fmt: on

BROKEN = [
    *[(more, f"{SOUND}{more}\n", [f'4: task "a": {said}']) for more, said in KEYS],
    *[(head, f"{head}\n{SOUND}", [said]) for head, said in HEADS],
    *[(name, SOUND.replace('"a"', f'"{name}"'), [f'2: task "{name}": {said}']) for name, said in NAMES],
    *[(line, SOUND.replace('"true"', line), [f'3: task "a": {said}']) for line, said in COMMANDS],
    *FILES,
]


@pytest.mark.parametrize(("text", "lines"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_file_is_refused_with_these_lines(text: str, lines: list[str], tmp_path: Path):
    told = [f"tasks.toml:{line}".replace("{folder}", str(tmp_path)) for line in lines]
    assert problems(text.removeprefix("\n")) == told


@pytest.mark.parametrize("name", ["", "A=B"])
def test_what_cannot_be_the_name_of_a_variable_is_refused(name: str):
    (told,) = problems(f'[[task]]\nname = "a"\ncommand = "x"\nenv = {{ "{name}" = "1" }}\n')
    assert f':4: task "a": env has "{name}", which cannot be the name of a variable' in told


def test_of_very_many_problems_the_rest_is_counted():
    entries = [f'[[task]]\nname = "a{number}"\ncommand = "x"\nneeds = ["b{number}"]\n' for number in range(1500)]
    told = problems("".join(entries))
    assert (len(told), told[-1]) == (101, "tasks.toml: and 1,400 more")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('command = "echo {i}"\nenv = { X = "{i}{long}" }', id="environment"),
        pytest.param('command = "echo {i} {long}"', id="command"),
    ],
)
def test_texts_that_are_too_long_for_so_many_tasks_are_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpudeck.engine.taskfile.expand._MAX_CHARACTERS", 10_000)
    entry = f'[[task]]\nname = "{{i}}"\nmatrix.i = {list(range(20))}\n{text}\n'
    (told, *_) = problems(f'[vars]\nlong = "{"x" * 600}"\n{entry}')
    assert re.search(r": .* too long for so many tasks: .* more than 10,000 characters", told)


def test_what_is_wrong_with_the_deck_hides_nothing_of_what_is_wrong_with_tasks(tmp_path: Path):
    path = tmp_path / "tasks.toml"
    path.write_text('[deck]\nslot_per_gpu = 2\n[[task]]\nname = "a"\ncommand = "true"\ngpus = -1\nneeds = ["b"]\n')
    with pytest.raises(TaskFileError) as caught:
        load_settings(str(path), RunOptions())
    assert [line.removeprefix(f"{path}:").partition(":")[0] for line in caught.value.problems] == ["2", "6", "7"]

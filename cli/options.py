"""Options and bare words of the commands, as argparse takes them."""

from __future__ import annotations

import argparse
from typing import Any

from .. import __version__

# -- options that several commands have --------------------------------------------------------------------------------


def some_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="+",
        metavar="SEL",
        help="names, globs; state:failed, reason:oom, tag:x, gpu:5, key=value narrow; -WORD leaves out",
    )


def running_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="SEL", help="as of the other commands; default: what runs")


def any_tasks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="SEL",
        help="names, globs; state:failed, tag:x, … narrow; -WORD leaves out; default: all tasks",
    )


def one_task(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="TASK", help="the name of a task, or what means one")


def file_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE [K=V …]", help="the task file, then values for [vars]")


def profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", metavar="NAME", help="use a [profile.NAME] of the file")


def named(parser: argparse.ArgumentParser) -> None:
    profile(parser)
    parser.add_argument("--name", help="a second state beside the first")


def state(parser: argparse.ArgumentParser) -> None:
    named(parser)
    parser.add_argument(
        "--queue", action="store_true", help="your queue, where `gpudeck run` runs commands, not the deck"
    )


def colour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-color", action="store_true", help="no colours, as with NO_COLOR set")


def json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON instead of text")


def as_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as-root", action="store_true", help="run as root in a folder that is not root's")


def yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def some_of_the_file(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--set", action="append", default=[], metavar="K=V", help="another value for one of [vars]")
    add("--data-root", metavar="PATH", help="the same as --set data_root=PATH")
    add("--only", action="append", default=[], metavar="SEL", help="only these tasks: names, globs, tag:x, key=value")
    add("--exclude", action="append", default=[], metavar="SEL", help="all but these")
    add("--with-needs", action="store_true", help="with --only: also what these tasks need")
    add("--limit", type=int, metavar="N", help="the first N tasks of each entry")


def gpus_of_a_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", metavar="LIST", help="all, none, 0-3,6, UUIDs or sim:N")
    parser.add_argument("--slots-per-gpu", metavar="N", help="tasks on one GPU at once, or auto")


def log_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-dir", metavar="PATH", help="where logs go (default: as the file says, else logs)")


def results(parser: argparse.ArgumentParser) -> None:
    log_dir(parser)
    add = parser.add_argument
    add("--skip-existing", action=argparse.BooleanOptionalAction, default=None, help="leave out what is done (default)")


def halt(parser: argparse.ArgumentParser) -> None:
    halt = parser.add_mutually_exclusive_group().add_argument
    halt(
        "--halt",
        metavar="WHEN",
        help="when failures end the run: never, soon,fail=3, now,fail=1, soon,fail=30%%, soon,early=3",
    )
    halt("--fail-fast", action="store_true", help="the same as --halt soon,fail=1")


def backend(parser: argparse.ArgumentParser) -> None:
    choices = ("local", "slurm")
    parser.add_argument("--backend", choices=choices, help="what runs the tasks: this box (local), or Slurm")


RUN = (some_of_the_file, state, gpus_of_a_run, results, halt, backend)
"""What a start takes; commands that look at what it would do have those of it that matter to them."""


def service(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="install|uninstall|status|show FILE", help="what to do, then the task file"
    )
    parser.add_argument("--force", action="store_true", help="replace a unit that has other contents")


def completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="bash|zsh|fish", help="the shell")


def clean(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--older-than", metavar="AGE", help="attempts that ended longer ago than this: 30d, 12h")
    add("--keep-last", type=int, metavar="N", help="all but the newest N attempts of each task")
    add("--records", action="store_true", help="also what damaged or ended engines have left in the state folder")
    add("--dry-run", action="store_true", help="only show what would go")


def table(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--metric", action="append", default=[], metavar="NAME[:max]", help="acc, loss:min, …; default: all")
    add("--over", action="append", default=[], metavar="KEY", help="mean ± std over this param, such as seed")
    add("--rows", action="append", default=[], metavar="KEY", help="params that make the rows of a grid")
    add("--columns", action="append", default=[], metavar="KEY", help="params that make its columns")
    add("--sort", metavar="NAME[:desc]", help="sort by a column")
    add("--best", choices=("column", "row", "none"), help="where the best value is marked (column)")
    add("--format", choices=("md", "latex", "csv", "tsv", "json"), help="how it is written (md)")
    add("--all", action="store_true", help="count tasks that did not succeed, too")


def plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--until", metavar="TIME", help='say what will be done by then: "08:00", or in "10h"')
    parser.add_argument("--prune", action="store_true", help="say which finished tasks `prune` would have stopped")


def compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="A B", help="two settings, each a selector: method=adam method=sgd")
    add("--over", action="append", default=[], metavar="KEY", help="values of this param are runs of one setting: seed")
    add("--metric", action="append", default=[], metavar="NAME[:max]", help="acc, loss:min, …; default: all")
    add("--paired", action="store_true", help="compare run by run: the same seed on both sides")


def report(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="the file to write (default: report.html); -: standard output")
    add("--open", action="store_true", help="open it in a browser")
    add("--serve", action="store_true", help="serve it on this box instead, and keep it new: prints its address")
    add("--port", type=int, metavar="N", help="with --serve: listen there (default: any free port)")


def init(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="FILE", help="the file to write (default: tasks.toml)")
    add("--name", help="the deck's name")
    add("--gpus", type=int, metavar="N", help="GPUs that each task takes")
    add("--force", action="store_true", help="begin anew; a file that exists is kept as FILE.bak")


# -- options of one command --------------------------------------------------------------------------------------------


def deck_only(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-V", "--version", action="version", version=f"gpudeck {__version__}", help="print the version")
    add("--headless", action="store_true", help="run in the foreground without a screen, a line per event")
    add("--plain", action="store_true", help="on a terminal: a line per event instead of the screen")
    add("--read-only", action="store_true", help="a screen that only looks: no engine is started, nothing is changed")
    add("--web", action="store_true", help="the screen in a browser: prints its address, with a key to it")
    add("--port", type=int, metavar="N", help="with --web: listen there (default: any free port)")
    add("--host", metavar="NAME", help="with --web: the address to listen on (127.0.0.1: this box alone)")
    add("--retry-cancelled", action="store_true", help="take up cancelled tasks too")
    add("--check-interval", type=float, default=10.0, metavar="SECONDS", help="between status lines (10; 0: none)")
    add("--json", action="store_true", help="JSON lines instead of text")
    add("--junit", metavar="FILE", help="write a JUnit report")
    add("--takeover", action="store_true", help="the host or container that ran the deck is gone, with its tasks")
    words = parser.add_mutually_exclusive_group().add_argument
    words("-v", "--verbose", action="store_true", help="also commands and reasons for waiting")
    words("-q", "--quiet", action="store_true", help="only failures and the summary")


def start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-d", "--detach", action="store_true", help="it always does: the command returns at once")


_NOW = "in the place of a task of yours that can go on from its checkpoint later (resume_when)"


def run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs=argparse.REMAINDER, metavar="CMD", help="several words as they are; one in quotes is for bash")
    add("-n", dest="gpu_count", metavar="N", help="GPUs that it takes together, or all (1; 0: runs on the CPU)")
    add("-d", "--detach", action="store_true", help="print the run's name and return; it goes on")
    add(
        "-i",
        "--interactive",
        action="store_true",
        help="on a terminal: a debugger, or without CMD your shell; Ctrl-\\ leaves it",
    )
    add("-q", "--quiet", action="store_true", help="nothing but what the command writes")
    add("--gpus", metavar="LIST", help="only these GPUs: 0-3,6, UUIDs; sim:N simulates N, apart from those of a deck")
    add("--launch", metavar="WHAT", help="what starts its processes: as the key launch of a task file")
    what = "before all that waits, in your decks, too (default)"
    add("--next", action=argparse.BooleanOptionalAction, default=True, help=what)
    add("--now", action="store_true", help=_NOW)


def attach(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="TASK", help="the terminal of this command of your queue (run -i)")


def fit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="+", metavar="TASK", help="the name of a task")
    add("--var", required=True, metavar="NAME=LOW..HIGH", help="one of [vars], and the whole numbers it may be")
    add("--step", type=int, metavar="N", help="only every Nth number (default: powers of two between two such, else 1)")
    add("--for", dest="trial_time", metavar="TIME", help="what still runs after this fits (60s)")
    add("--steps", type=int, metavar="N", help="stop a trial sooner, once its progress has moved N times")
    add("-n", dest="gpu_count", metavar="N", help="GPUs for a trial (default: as many as the task takes)")
    add("--gpus", metavar="LIST", help="only these GPUs: 0-3,6, UUIDs; sim:N simulates")
    add("--env", action="append", default=[], metavar="K=V", help="over the task's environment")
    add("--set", action="append", default=[], metavar="K=V", help="another value for another one of [vars]")


def add(parser: argparse.ArgumentParser) -> None:
    more = parser.add_argument
    more("words", nargs=argparse.REMAINDER, metavar="CMD", help="several words as they are; one in quotes is for bash")
    more("-n", "--gpus", dest="gpu_count", metavar="N", help="GPUs that it takes together, or all (1; 0: a CPU task)")
    more("--like", metavar="TASK", help="instead of CMD: as this task is")
    more("--set", dest="keys", action="append", default=[], metavar="K=V", help="but for a value or key, as lr=0.05")
    more("--needs", action="append", default=[], metavar="TASK", help="a task that must succeed first, or a glob")
    more("--round", metavar="N", help="starts when the earlier rounds are done")
    more("--next", action="store_true", help="before all that waits, in your other decks, too")
    more("--now", action="store_true", help=_NOW)
    more("--cwd", metavar="PATH", help="where it runs (default: here)")
    more("--queue", action="store_true", help="into your queue, although there is a task file")
    more("--dry-run", action="store_true", help="only show what would be added")
    more("-s", "--start", action="store_true", help="start an engine if none runs the deck")


def task_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--gpu-memory", metavar="SIZE", help="memory that it needs free on each GPU: 24GiB, auto")
    add("--cpus", metavar="N", help="cores that it counts for")
    add("--timeout", metavar="TIME", help="stopped after 90s, 30m, 2h, …")
    add("--env", action="append", default=[], metavar="K=V", help="over its environment")
    add("--priority", metavar="N", help="higher goes first")
    name = "what it is called (default: made from the command); in the queue numbered where that is taken"
    add("--name", dest="task_name", metavar="NAME", help=name)


def engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--options", help=argparse.SUPPRESS)
    named(parser)
    parser.add_argument("--service", action="store_true", help="started by systemd")
    parser.add_argument("--takeover", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--purpose", default="look", help=argparse.SUPPRESS)


def doctor(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--distributed", action="store_true", help="also run a tiny training on several ranks, with torchrun")
    add("-n", dest="ranks", type=int, metavar="N", help="with --distributed: how many ranks (2)")


def submit(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--out", metavar="PATH", help="the folder for the scripts (default: slurm beside the task file)")
    add("--go", action="store_true", help="submit them at once")


def env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--refresh", action="store_true", help="keep this shell's environment instead")


def notify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", action="store_true", help="send a message now and say whether it went out")


def gpus(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="drain|enable|take N", help="what a deck that runs does with GPUs: 3, 0-2"
    )
    parser.add_argument("--gpus", metavar="SIM", help="sim:N shows simulated GPUs")


def status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--failed", action="store_true", help="each failed task: why, its log, its last lines")


def logs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="go on with what is written, through later attempts")
    add("-n", "--lines", type=int, default=40, metavar="N", help="the last N lines (40)")
    add("--attempt", type=int, metavar="N", help="of this attempt, not the newest")
    add("--rank", type=int, metavar="K", help="of this process of a task that torchrun or accelerate starts (0)")
    add("--err", action="store_true", help="standard error alone")


def wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", metavar="TIME", help="give up after 90s, 30m, 2h, …: exit 124")


def retry(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    more = dict[str, Any](action="append", default=[], metavar="K=V")
    add("--set", dest="values_given", help="with this value in the place of the file's, from now on", **more)
    add("--fresh", action="store_true", help="begin anew: command runs, not resume_command")
    add("--downstream", action="store_true", help="then also what builds on these tasks")
    add(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        help="over the task's environment until it has ended; K= is empty",
    )
    add("--debug", action="store_true", help="with NCCL_DEBUG=INFO, TORCH_DISTRIBUTED_DEBUG=DETAIL")
    add("--not-on", action="append", default=[], metavar="GPU", help="on another GPU than this, where there is one")


def priority(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="SEL … N", help="selectors, then the priority; higher goes first")


def keep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", action="store_true", help="changed tasks that have finished keep their results and do not run again"
    )


def dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only say what would change")


def stop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", action="store_true", help="stop the tasks as well; the next start takes them up")
    parser.add_argument("--now", action="store_true", help="with --tasks: KILL at once")

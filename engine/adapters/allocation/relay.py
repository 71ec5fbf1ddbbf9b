"""The two shells around a task on another node: one here, before srun, and one there, around the command.

srun ends the whole step as soon as it gets TERM itself. So it is left alone: the shell here writes the names of
signals that it gets into srun's standard input, and the shell there gives them to the command's group. Where srun and
what watches over it are killed together, Slurm lets the step run on; so the shell here writes every few seconds that it
is there, and the command is killed when it has been silent for long. Until then Slurm gives its GPUs to nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence

HERE = """\
exec 3> >(exec "$@")
step=$!
for s in HUP INT QUIT TERM USR1 USR2 ALRM; do trap "echo $s >&3" "$s"; done
{ trap '' PIPE; exec 4<> <(:); while kill -0 $$ && echo here >&3; do read -r -t 5 -u 4; done; } 2>/dev/null & beat=$!
while :; do wait "$step"; c=$?; kill -0 "$step" || break; done 2>/dev/null
wait "$step" 2>/dev/null; d=$?
[ "$d" = 127 ] || c=$d
kill -KILL "$beat"
exit "$c"
"""
"""A `wait` that a signal cuts short tells of the signal: only what it says of a step that is gone counts. The beat
waits in a read that nobody answers: a `sleep` would be left over when it is killed."""

THERE = """\
exec 4<&0 </dev/null
set -m
"$@" 4<&- & c=$!
{
  while read -r -t 20 s <&4; do [ "$s" = here ] || kill -s "$s" -- "-$c"; done
  kill -s KILL -- "-$c"
} 2>/dev/null & r=$!
exec 4<&-
wait "$c"; e=$?
kill "$r" 2>/dev/null
exit "$e"
"""
"""With -m the command has a group of its own, and is not made to ignore INT as what shells start aside is."""


def relayed(step: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """*step*: srun with its options, up to "--"."""
    return ("bash", "-c", HERE, "gpudeck", *step, "bash", "-c", THERE, "gpudeck", *command)

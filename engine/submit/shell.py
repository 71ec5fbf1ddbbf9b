"""submit.sh: hands each job to sbatch once, with what it waits for. It needs bash and Slurm, and no gpudeck. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..adapters.slurm.states import FAILED
from .waits import Waits

SUBMITTED = "submitted"
"""The file beside submit.sh that keeps what Slurm has taken, a line each: task, token, job id."""
LOCK = ".lock"
"""Held by who submits, or writes jobs anew."""


@dataclass(frozen=True, slots=True)
class Member:
    """A task of a job."""

    task: str
    token: str
    files: str
    """What its script and its record are called in the folder of submit.sh, without .sh and .json."""
    attempt: str
    """What its files are called where the deck has them: "/…/logs/a/attempt-1". They are made when it is submitted, so
    that nobody else takes their number."""
    merged: bool
    """Both streams go to one log."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one sbatch submits: a task, or several as an array."""

    name: str
    """The job's name, which no other job has."""
    script: str
    """Relative to submit.sh."""
    members: tuple[Member, ...]
    waits: Waits
    batch: str = ""
    """Of an array; empty: one job."""


def submit_script(deck: str, control: str, units: Sequence[Unit], in_flight: Mapping[str, str], *, version: str) -> str:
    """The whole text. *control*: absolute path of the folder in which jobs tell how they ended; *in_flight*: by task
    the token of a job that an earlier submit.sh has handed over, and that others may wait for."""
    lines = [f"known {shlex.quote(task)} {token}" for task, token in in_flight.items()]
    for unit in units:
        lines.append("")
        lines.append(_words("job", unit.name, unit.script, unit.batch))
        for member in unit.members:
            err = () if member.merged else ("err",)
            lines.append(_words("  task", member.task, member.token, member.files, member.attempt, *err))
        lines += [_words("  after_ok", *unit.waits.ok)] * bool(unit.waits.ok)
        lines += [_words("  after_end", *unit.waits.ended)] * bool(unit.waits.ended)
        lines.append("  submit")
    failed = "|".join(sorted(FAILED))
    head = _HEAD.format(deck=" ".join(deck.split()), version=version, control=shlex.quote(control), failed=failed)
    return "\n".join([head + _BODY, *lines, "", "tell", ""])


def _words(verb: str, *words: str) -> str:
    return " ".join([verb, *(shlex.quote(word) for word in words)])


_HEAD = """\
#!/bin/bash
# The deck {deck} as Slurm jobs, written by gpudeck {version}. `bash submit.sh` submits each of them once: what Slurm
# has taken is kept in the file "submitted", so after an interruption or a refusal it may just be run again.
control={control}
failed='{failed}'
"""

_BODY = r"""
usual=$(umask)
umask 077
cd -- "$(dirname -- "${BASH_SOURCE[0]}")" || exit 3
exec 9>.lock
if command -v flock >/dev/null && ! flock -n 9; then
    echo "submit.sh: it runs already, or gpudeck writes here" >&2
    exit 3
fi
mkdir -p -- "$control" || exit 3
touch submitted || exit 3

# Nothing of this shell but these reaches sbatch and the jobs: the scripts have their environment in them.
small=()
for variable in PATH HOME USER LOGNAME LANG TZ SLURM_CONF SLURM_CLUSTERS KRB5CCNAME; do
    [ -n "${!variable-}" ] && small+=("$variable=${!variable}")
done
ask() { env -i "${small[@]}" timeout 60 "$@" 9>&-; }

unclear='timed? ?out|zero bytes|transport endpoint|connection reset|unexpected message|broken pipe|send/recv'
declare -A token_of id_of listed
sent=0 had=0 left=0 refusals=0

stop() {
    echo "submit.sh: $1" >&2
    exit "${2-3}"
}

known() { token_of[$1]=$2; }

keep() { # ID: for all tasks of the job
    local i each lines=
    for i in "${!tasks[@]}"; do
        each=$1
        case $1 in *[0-9]) [ -z "$batch" ] || each=$1_$i ;; esac
        id_of[${tokens[i]}]=$each
        lines+="${tasks[i]} ${tokens[i]} $each"$'\n'
    done
    printf %s "$lines" >>submitted || stop "\"submitted\" cannot be written: nothing more is submitted"
}

# What sbatch was asked and did not answer is looked up by the job's name, which no other job has.
recall() {
    local task token id name state
    while read -r task token id; do
        [ -n "${id-}" ] && id_of[$token]=$id
    done <submitted
    [ ${#id_of[@]} -gt 0 ] || return 0
    local jobs
    jobs=$(ask squeue -h -r -t all -u "$(id -u)" -o '%i %T %j') || stop "squeue does not answer: nothing is submitted"
    declare -A named
    while read -r id state name; do
        [ -n "${name-}" ] && listed[$id]=$state named[$name]=$id
    done <<<"$jobs"
    for token in "${!id_of[@]}"; do
        case ${id_of[$token]} in
        \?*)
            name=${id_of[$token]#\?} index=
            case $name in *\[*) index=_${name##*[} name=${name%%[*} ;; esac
            id=${named[$name]-}
            if [ -n "$id" ]; then
                id_of[$token]=${id%%_*}$index
            elif [ -s "$control/$token.claim" ]; then
                id_of[$token]=$(head -n 1 "$control/$token.claim")
            else
                unset "id_of[$token]"
            fi
            ;;
        -) unset "id_of[$token]" ;;
        esac
    done
}

fate() { # TOKEN: how its job stands, in $stands
    local id=${id_of[$1]-} key code
    stands=${final[$1]-}
    [ -z "$stands" ] || return
    if [ -e "$control/$1.ended" ]; then
        while IFS='=' read -r key code && [ "$key" != code ]; do :; done <"$control/$1.ended"
        [ "$code" = 0 ] && stands=ok || stands=failed
        final[$1]=$stands
    elif [ -z "$id" ]; then
        stands=none
    elif [ -n "${fresh[$id]-}" ]; then
        stands=waits
    elif [ "${listed[$id]-}" = COMPLETED ]; then
        stands=ok
    elif [[ ${listed[$id]-FAILED} =~ ^($failed)$ ]]; then
        stands=failed
    else
        stands=waits
    fi
}
declare -A fresh final

job() { # NAME SCRIPT [BATCH]
    job=$1 script=$2 batch=${3-} tasks=() tokens=() files=() attempts=() errs=() oks=() ends=()
}
task() { # NAME TOKEN FILES ATTEMPT [err]
    token_of[$1]=$2 tasks+=("$1") tokens+=("$2") files+=("$3") attempts+=("$4") errs+=("${5-}")
}
after_ok() { oks+=("$@"); }
after_end() { ends+=("$@"); }

# Where an engine would have put it, so that one finds it there.
place() {
    local at=${attempts[$1]} folder=${attempts[$1]%/*} end
    umask "$usual"
    mkdir -p -- "$folder" && cat -- "${files[$1]}.json" >"$at.json" || return 1
    for end in log ${errs[$1]}; do
        : >>"$at.$end" && ln -sfn "${at##*/}.$end" "$folder/latest.$end" || return 1
    done
    umask 077
    cp -- "${files[$1]}.sh" "$at.sh" && : >"$control/${tokens[$1]}.sent"
}

unsent() {
    echo "not submitted: ${tasks[0]}$([ ${#tasks[@]} -gt 1 ] && echo " and $((${#tasks[@]} - 1)) more"): $1"
    left=$((left + ${#tasks[@]}))
}

submit() {
    local name ok= end= dependency= id code i
    [ -n "${id_of[${tokens[0]}]-}" ] && had=$((had + ${#tasks[@]})) && return
    [ "$refusals" -ge 5 ] && unsent "after 5 refusals in a row nothing more is tried" && return
    for name in "${oks[@]}"; do
        fate "${token_of[$name]-}"
        case $stands in
        waits) ok+=:${id_of[${token_of[$name]}]} ;;
        failed) unsent "it needs $name, which did not succeed" && return ;;
        none) unsent "it needs $name, which is not submitted" && return ;;
        esac
    done
    for name in "${ends[@]}"; do
        fate "${token_of[$name]-}"
        case $stands in
        waits) end+=:${id_of[${token_of[$name]}]} ;;
        none) unsent "it comes after $name, which is not submitted" && return ;;
        esac
    done
    dependency=${ok:+afterok$ok}${ok:+${end:+,}}${end:+afterany$end}
    for i in "${!tasks[@]}"; do
        place "$i" || stop "${attempts[i]}.log cannot be made: nothing more is submitted"
    done
    for i in "${!tasks[@]}"; do
        echo "${tasks[i]} ${tokens[i]} ?$job${batch:+[$i}" >>submitted || stop "\"submitted\" cannot be written"
    done
    if [ -n "$batch" ]; then
        for i in "${!tokens[@]}"; do echo "$i ${tokens[i]}"; done >"$control/$batch.map" || stop "$control is full"
    fi
    wishes=()  # what is set for all jobs, where the script says nothing: sbatch would heed it before the script
    for i in ACCOUNT,A PARTITION,p QOS,q RESERVATION,; do
        variable=SBATCH_${i%,*} long=${i%,*} short=${i#*,}
        [ -n "${!variable-}" ] && ! grep -qE "^#SBATCH (--${long,,}\b${short:+|-$short})" "$script" &&
            wishes+=("$variable=${!variable}")
    done
    id=$(ask env ${wishes[@]+"${wishes[@]}"} sbatch --parsable --export=ALL \
        ${dependency:+--kill-on-invalid-dep=yes "--dependency=$dependency"} \
        "$script" 2>.answer)
    code=$?
    id=${id%%;*}
    if [ "$code" = 0 ] && [[ $id =~ ^[0-9]+$ ]]; then
        keep "$id"
        for i in "${!tasks[@]}"; do fresh[${id_of[${tokens[i]}]}]=1; done
        sent=$((sent + ${#tasks[@]})) refusals=0
        echo "job $id: ${tasks[0]}$([ ${#tasks[@]} -gt 1 ] && echo " and $((${#tasks[@]} - 1)) more")"
    elif [ "$code" -ge 124 ] || [ ! -s .answer ] || grep -qiE "$unclear" .answer; then
        stop "sbatch gave no answer for ${tasks[0]}: run submit.sh again, it looks up whether Slurm has the job"
    else
        keep -
        for i in "${!tasks[@]}"; do
            unset "id_of[${tokens[i]}]"
            rm -f -- "$control/${tokens[i]}.sent"
        done
        refusals=$((refusals + 1))
        unsent "$(sed 's/^sbatch: error: //' .answer | tail -n 2 | paste -s -d ';')"
    fi
}

tell() {
    rm -f .answer
    echo "submitted $sent, submitted earlier $had, not submitted $left"
    [ "$left" = 0 ] || exit 1
    exit 0
}

command -v sbatch >/dev/null || stop "there is no sbatch on this machine: run it on the cluster's login node"
recall
"""

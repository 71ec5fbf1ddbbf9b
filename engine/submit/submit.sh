usual=$(umask)
umask 077
cd -- "$(dirname -- "${BASH_SOURCE[0]}")" || exit 3
exec 9>.lock
if command -v flock >/dev/null && ! flock -n 9; then
    echo "submit.sh: it runs already, or gpudeck writes here" >&2
    exit 3
fi
mkdir -p -- "$control" || exit 3

# Nothing of this shell but these reaches sbatch and the jobs: the scripts have their environment in them.
small=()
for variable in PATH HOME USER LOGNAME LANG TZ SLURM_CONF SLURM_CLUSTERS KRB5CCNAME; do
    [ -n "${!variable-}" ] && small+=("$variable=${!variable}")
done
ask() { env -i "${small[@]}" timeout 60 "$@" 9>&-; }

unclear='timed? ?out|zero bytes|transport endpoint|connection reset|unexpected message|broken pipe|send/recv'
declare -A token_of id_of doubtful fresh final listed named
sent=0 had=0 left=0 refusals=0 asked=

stop() {
    echo "submit.sh: $1" >&2
    exit "${2-3}"
}

# What Slurm was given says the last whole line of TOKEN.sent: ?NAME, which no other job has, then the job's id.
recall() { # TOKEN: the id of its job, in id_of; none where Slurm was not given it
    local id= line
    [ -e "$control/$1.sent" ] || return 0
    while read -r line; do id=$line; done <"$control/$1.sent"
    if ! [[ $id =~ ^[0-9] ]]; then
        look
        id=${named[${id:-?}]-} doubtful[$1]=1
        if [ -z "$id" ] && [ -s "$control/$1.claim" ]; then read -r id <"$control/$1.claim"; fi
    fi
    [ -z "$id" ] || id_of[$1]=$id
}

look() { # what Slurm says of the user's jobs
    local jobs id state name
    [ -z "$asked" ] || return 0
    asked=1
    jobs=$(ask squeue -h -r -t all -u "$(id -u)" -o '%i %T %j') || stop "squeue does not answer: nothing more is submitted"
    while read -r id state name; do
        [ -n "$name" ] || continue
        listed[$id]=$state
        case $id in *_*) name+=_${id##*_} ;; esac
        named[?$name]=$id
    done <<<"$jobs"
}

fate() { # TASK: how its job stands, in $stands. Slurm forgets a job that has ended, so that its own word comes first
    local token=${token_of[$1]-} key code
    local id=${id_of[$token]-}
    stands=${final[$token]-}
    [ -z "$stands" ] || return 0
    if [ -e "$control/$token.ended" ]; then
        while IFS='=' read -r key code && [ "$key" != code ]; do :; done <"$control/$token.ended"
        [ "$code" = 0 ] && stands=ok || stands=failed
        final[$token]=$stands
    elif [ -z "$id" ]; then
        stands=none
    elif [ -n "${fresh[$id]-}" ]; then
        stands=waits
    else
        look
        if [ "${listed[$id]-}" = COMPLETED ]; then
            stands=ok
        elif [[ ${listed[$id]-FAILED} =~ ^($failed)$ ]]; then
            stands=failed
        else
            stands=waits
        fi
    fi
}

known() { # TASK TOKEN, of an earlier submit.sh
    token_of[$1]=$2
    recall "$2"
}
job() { # NAME SCRIPT [BATCH]
    job=$1 script=$2 batch=${3-} tasks=() tokens=() files=() attempts=() errs=() oks=() ends=()
}
task() { # NAME TOKEN FILES ATTEMPT [err]
    tasks+=("$1") tokens+=("$2") files+=("$3") attempts+=("$4") errs+=("${5-}")
    known "$1" "$2"
}
after_ok() { oks+=("$@"); }
after_end() { ends+=("$@"); }

# Where an engine would have put it, so that one finds it there.
place() {
    local at=${attempts[$1]} folder=${attempts[$1]%/*} end
    echo "?$job${batch:+_$1}" >"$control/${tokens[$1]}.sent" || return 1
    umask "$usual"
    mkdir -p -- "$folder" && cat -- "${files[$1]}.json" >"$at.json" || return 1
    for end in log ${errs[$1]}; do : >>"$at.$end" || return 1; done
    umask 077
    cp -- "${files[$1]}.sh" "$at.sh"
}

keep() { # ID: for all tasks of the job
    local i end each at
    for i in "${!tasks[@]}"; do
        each=$1${batch:+_$i} at=${attempts[i]}
        id_of[${tokens[i]}]=$each
        echo "$each" >>"$control/${tokens[i]}.sent" || stop "$control cannot be written: nothing more is submitted"
        for end in log ${errs[i]}; do ln -sfn "${at##*/}.$end" "${at%/*}/latest.$end"; done
    done
}

take_back() {
    local i
    for i in "${!tasks[@]}"; do
        rm -f -- "${attempts[i]}".{json,log,err,sh} "$control/${tokens[i]}.sent"
    done
}

unsent() {
    echo "not submitted: ${tasks[0]}$([ ${#tasks[@]} -gt 1 ] && echo " and $((${#tasks[@]} - 1)) more"): $1"
    left=$((left + ${#tasks[@]}))
}

submit() {
    local name ok= end= dependency= id code i
    id=${id_of[${tokens[0]}]-}
    if [ -n "$id" ]; then
        had=$((had + ${#tasks[@]}))
        [ -z "${doubtful[${tokens[0]}]-}" ] || [ "$id" = void ] || keep "${id%%_*}"
        return
    fi
    for i in "${!tasks[@]}"; do
        if [ ! -e "${attempts[i]}.json" ] || [ -e "$control/${tokens[i]}.sent" ]; then continue; fi
        # An engine has taken it in, or has begun another attempt of that number.
        if grep -qF "${tokens[i]}" "${attempts[i]}.json"; then
            had=$((had + ${#tasks[@]}))
        else
            unsent "${attempts[i]##*/} of ${tasks[i]} is another's by now: \`gpudeck submit\` writes what is left"
        fi
        return
    done
    [ "$refusals" -ge 5 ] && unsent "after 5 refusals in a row nothing more is tried" && return
    for name in "${oks[@]}"; do
        fate "$name"
        case $stands in
        waits) ok+=:${id_of[${token_of[$name]}]} ;;
        failed) unsent "it needs $name, which did not succeed" && return ;;
        none) unsent "it needs $name, which is not submitted" && return ;;
        esac
    done
    for name in "${ends[@]}"; do
        fate "$name"
        case $stands in
        waits) end+=:${id_of[${token_of[$name]}]} ;;
        none) unsent "it comes after $name, which is not submitted" && return ;;
        esac
    done
    dependency=${ok:+afterok$ok}${ok:+${end:+,}}${end:+afterany$end}
    for i in "${!tasks[@]}"; do
        place "$i" || stop "${attempts[i]}.log cannot be made: nothing more is submitted"
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
        take_back
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

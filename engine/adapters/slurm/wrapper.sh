
# What the job does: it takes its claim, runs the command, and tells how that ended once nothing of it lives on this
# node. Times in variables are milliseconds of uptime, unless their names say seconds.

gd_files=$gd_control/$gd_token
gd_job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID-}}
gd_job=${gd_job:-${SLURM_JOB_ID:-$$}}
gd_lease=45000
gd_code=''      # the command's, once it has ended
gd_asked=0      # whether the command was told to end while it ran
gd_told=''      # what Slurm said last: TERM, limit
gd_kill_at=''   # of the stop sequence that runs
gd_stop_at=''   # when one has to begin, before Slurm's limit
gd_warning=''   # a signal for those who catch it, not sent yet
gd_warn_at=''   # when it has to be, before Slurm's limit
gd_warned=''    # the signal that the other nodes were told of
gd_lost=''      # since when the claim is not ours
gd_stopped=''   # processes that stand still since the folder cannot be seen
gd_watcher='' gd_sampler='' gd_leader='' gd_wall='' gd_umask=''
gd_found=()
declare -A gd_reached=()  # by the stop signal
declare -A gd_known=()    # when those that were found began: an orphan may show nothing else of its origin
exec </dev/null
IFS=$' \t\n'
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
gd_locale=${LC_ALL-}
LC_ALL=C

gd_clock() {
    read -r gd_now _ </proc/uptime
    gd_now=$((10#${gd_now/./} * 10))
}

gd_pause_after() {  # in gd_pause, seconds: a second at most, and short ones for what began but now
    local pause=$(((gd_now - $1) / 20))
    pause=$((1000 + (pause < 20 ? 20 : pause > 999 ? 999 : pause)))
    gd_pause=0.${pause:1}
}

gd_ms() {  # of seconds as text, in gd_value
    local part=000
    case $1 in *.*) part=${1#*.}000 ;; esac
    gd_value=${1%%.*}
    gd_value=$((10#${gd_value:-0} * 1000 + 10#${part:0:3}))
}

gd_epoch() {  # seconds, in gd_value
    gd_value=${EPOCHREALTIME-}
    gd_value=${gd_value:-$(date +%s.%3N)}
}

# Another process costs more than all else here, and short jobs come by the thousand: so no more of them than needed.

gd_write() {  # kind, lines: at once, so that no reader takes a part for all of it
    local file=$gd_files.$1
    shift
    printf '%s\n' "$@" >"$file"
}

gd_private() {  # what it writes is; the command gets the umask back
    local key value
    while read -r key value; do
        if [ "$key" = Umask: ]; then gd_umask=$value; fi
        case $key in Umask: | State:) break ;; esac
    done </proc/$$/status
    gd_umask=${gd_umask:-$(umask)}
    umask 077
}

gd_take_claim() {
    set -C
    if printf '%s\n' "$gd_job" >"$gd_files.claim"; then
        set +C
        return
    fi 2>/dev/null
    if [ -e "$gd_files.claim" ]; then
        echo "gpudeck: another job has this attempt, or it was given up: nothing is run" >&2
    else
        echo "gpudeck: cannot write in $gd_control: all nodes have to share it" >&2
    fi
    exit 125
}

gd_begin() {
    gd_clock
    gd_began=$gd_now gd_seen=$gd_now
    gd_epoch
    echo 0 >"$gd_files.alive"
    gd_write began "job=$gd_job" "nodes=${SLURM_JOB_NODELIST-}" "wall=$gd_value"
}

gd_end() {  # what to tell, our own exit code
    local helper try
    gd_hear  # the command may die of what this shell is told at the same time
    trap '' TERM INT USR2
    for helper in $gd_watcher $gd_sampler; do
        kill -KILL -- "-$helper"
        wait "$helper"
    done
    gd_epoch
    for try in 1 2 3 4 5 6 7 8 9 10 11 12; do  # a full disk may have space again
        gd_write ended "code=$1" "wall=${gd_wall:-$gd_value}" "stopped=$gd_asked" ${gd_told:+"signal=$gd_told"} && break
        sleep 5
    done
    if [ -n "$gd_setup" ]; then rm -f -- "$gd_files.setup"; fi
    sync -- "$gd_files.ended" "$gd_control"
    exit "$2"
}

# What happens: lines in a pipe, from this shell's traps and from the watcher, each with ";" at its end. This shell waits
# for them and looks after the command in between: a `wait` that a trapped signal ends may lose a code that it has just
# got (bash 5.2).

gd_listen() {
    exec 7<> <(:)
    trap 'gd_woken=1; echo "term;" >&7' TERM INT
    trap 'gd_woken=1; echo "limit;" >&7' USR2
    trap gd_woken=1 HUP QUIT USR1 ALRM
}

gd_watch() {  # all that looks at the shared folder: should that hang, the main shell does not
    local claim line stop='' warn='' beat=0
    trap '' TERM INT USR2 HUP QUIT USR1 ALRM
    exec 6<> <(:)
    while [ -e /proc/$$/exe ]; do  # a killed one that nobody reaps has none
        if ((beat++ % 5 == 0)); then
            claim=''
            read -r claim <"$gd_files.claim"
            if [ "$claim" = "$gd_job" ]; then
                echo "$beat" >"$gd_files.alive" && echo "seen;" >&7
            else
                case $claim$(stat -- "$gd_files.claim" 2>&1) in ?*' File: '* | *'No such file'*) echo "lost;" >&7 ;; esac
            fi
            : >"$gd_files.look" && rm -f -- "$gd_files.look"  # a client of NFS then looks at the folder anew
        fi
        if [ -e "$gd_files.stop" ] && read -r line <"$gd_files.stop" && [ "$line" != "$stop" ]; then
            stop=$line
            echo "stop $line;" >&7
        fi
        if [ -e "$gd_files.warn" ] && read -r line <"$gd_files.warn" && [ "$line" != "$warn" ]; then
            warn=$line
            echo "warn $line;" >&7
        fi
        read -r -t 1 -u 6 line
    done
}

gd_heed() {  # one of these lines
    set -- "${1%;}"
    gd_clock
    case $1 in
        seen)
            gd_seen=$gd_now gd_lost=''
            gd_go_on
            ;;
        lost) gd_lost=${gd_lost:-$gd_now} gd_seen=$gd_now ;;
        stop\ *) gd_stop ${1#stop } ;;
        warn\ *) gd_warning=${1#warn } gd_warn_at='' gd_warn_signal='' ;;
        term)
            gd_told=${gd_told:-TERM}
            gd_stop "$gd_signal" "$gd_grace_s" "$gd_scope" slurm
            ;;
        limit)
            gd_before_limit
            ;;
    esac
}

gd_before_limit() {  # Slurm may say so much too soon: what is left is not given away
    local left=$((gd_lead_s * 1000))
    if [[ ${SLURM_JOB_END_TIME-} =~ ^[0-9]+$ ]]; then
        left=$(((SLURM_JOB_END_TIME - $(date +%s)) * 1000))
    elif [ -n "$gd_limit_s" ]; then
        left=$((gd_began + gd_limit_s * 1000 - gd_now))
    fi
    gd_ms "$gd_grace_s"
    gd_stop_at=$((gd_now + left - gd_value - 5000))
    if [ -n "$gd_warn_signal" ]; then
        gd_ms "$gd_warn_before_s"
        gd_warn_at=$((gd_stop_at - gd_value))
    fi
}

gd_await() {  # heeds the next line, if it comes within so many seconds
    local line='' rest=''
    if ! IFS= read -r -t "$1" -u 7 line; then
        # The time may be up in the middle of a line, and when bash has just read the end of it.
        case $line in '') return ;; *\;) ;; *) IFS= read -r -u 7 rest ;; esac
    fi
    gd_heed "$line$rest"
}

gd_hear() {  # heeds what was said
    local line
    while read -t 0 -u 7; do IFS= read -r -u 7 line && gd_heed "$line"; done
}

gd_tick() {
    gd_clock
    if [ -z "$gd_watcher" ] && ((gd_now - gd_began > 200)); then gd_help; fi
    if [ -n "$gd_warn_at" ] && ((gd_now >= gd_warn_at)); then gd_warning=$gd_warn_signal gd_warn_at=''; fi
    if [ -n "$gd_warning" ]; then gd_warn; fi
    if [ -n "$gd_stop_at" ] && ((gd_now >= gd_stop_at)); then
        gd_stop_at='' gd_told=limit
        gd_stop "$gd_signal" "$gd_grace_s" "$gd_scope"
    fi
    if [ -n "$gd_kill_at" ]; then
        if ((gd_now >= gd_kill_at)); then
            gd_kill
        elif [ -n "$gd_code" ] || ((gd_now >= gd_half_at)); then
            gd_stop_rest
        fi
    elif [ -n "$gd_lost" ] && ((gd_now - gd_lost > gd_lease)); then
        gd_stop KILL 0 group  # the claim is gone, or another's
    elif [ -z "$gd_stopped" ] && ((gd_now - gd_seen > gd_lease)); then
        gd_stand_still
    fi
}

# The attempt's processes on this node.

gd_find() {  # those that live, into gd_found. near: without those that only their environment tells of
    local pid stat file more=1
    local -A parent=() member=() start=()
    for file in /proc/[0-9]*; do
        pid=${file#/proc/} stat=''
        read -r -d '' stat <"$file/stat"
        set -- "${1-}" ${stat##*) }  # state, parent, group
        case ${2-X} in [ZXx]) continue ;; esac
        case " $$ $gd_watcher $gd_sampler " in *" $pid "* | *" $4 "*) continue ;; esac
        if [ "$pid" = "$gd_leader" ] || [ "$4" = "$gd_leader" ] || [ "${gd_known[$pid]-}" = "${21-}" ]; then
            member[$pid]=1
        elif [ "$3" = $$ ]; then
            continue
        fi
        parent[$pid]=$3 start[$pid]=${21-}
    done
    if [ "${1-}" != near ]; then
        for file in $(grep -lsazxF -e "GPUDECK_TOKEN=$gd_token" /proc/[0-9]*/environ); do
            pid=${file#/proc/} pid=${pid%/environ}
            if [ -n "${parent[$pid]-}" ]; then member[$pid]=1; fi
        done
    fi
    while [ -n "$more" ]; do
        more=''
        for pid in ${parent[@]+"${!parent[@]}"}; do
            if [ -z "${member[$pid]-}" ] && [ -n "${member[${parent[$pid]}]-}" ]; then
                member[$pid]=1 more=1
            fi
        done
    done
    gd_found=(${member[@]+"${!member[@]}"})
    for pid in ${gd_found[@]+"${gd_found[@]}"}; do gd_known[$pid]=${start[$pid]-}; done
}

gd_since_then() {  # processes that may have begun after the command, into gd_younger. In /proc
    local last='' pid
    gd_younger=()
    read -r _ _ _ _ last </proc/loadavg
    # Numbers that go on from the command's have not begun anew since, if there was no time for all of them.
    if ((gd_now - gd_began < 2000 && last >= gd_leader && last - gd_leader < 1000)); then
        for ((pid = gd_leader + 1; pid <= last; pid++)); do
            if [ -e "$pid" ]; then gd_younger+=("$pid"); fi
        done
    else
        gd_younger=([0-9]*)
    fi
}

gd_none_left() {  # once the command has ended: whether nothing of it lives. Those that live are in gd_found
    if ! kill -0 -- "-$gd_leader" && ((!${#gd_known[@]})); then  # then only their environment tells of others
        gd_since_then
        ((${#gd_younger[@]})) || return 0
        grep -qsazxF -e "GPUDECK_TOKEN=$gd_token" "${gd_younger[@]/%//environ}" || return 0
    fi
    gd_find
    ((!${#gd_found[@]}))
}

gd_send() {  # signal, processes
    local signal=$1
    shift
    if (($#)); then kill -s "$signal" -- "$@"; fi
}

gd_step() {  # a signal for the job's steps, on all its nodes
    if ((gd_tasks)); then scancel --signal="$1" "$gd_job" </dev/null 7>&- & fi
}

gd_stop() {  # signal, grace in seconds, scope; slurm: who sent TERM to all by itself
    local pid
    gd_ms "$2"
    if [ -n "$gd_kill_at" ]; then  # again only hastens it
        if ((gd_now + gd_value < gd_kill_at)); then gd_kill_at=$((gd_now + gd_value)) gd_half_at=$gd_now; fi
        return
    fi
    gd_kill_at=$((gd_now + gd_value)) gd_half_at=$((gd_now + gd_value / 2)) gd_last_signal=$1
    if [ -z "$gd_code" ] || [ "$gd_leftovers" = wait ]; then gd_asked=1; fi
    gd_find
    if [ -n "$gd_code" ] || { [ "${4-}" = slurm ] && [ "${1#SIG}" = TERM ]; }; then
        :
    elif ((gd_tasks)); then
        gd_step "$1"
        for pid in ${gd_found[@]+"${gd_found[@]}"}; do gd_reached[$pid]=1; done
        unset "gd_reached[$gd_leader]"  # srun itself
    elif [ "$3" = leader ]; then
        gd_send "$1" "$gd_leader"
        gd_reached[$gd_leader]=1
    else
        for pid in ${gd_found[@]+"${gd_found[@]}"}; do
            if gd_in_group "$pid"; then gd_reached[$pid]=1; fi
        done
        gd_send "$1" "-$gd_leader"
    fi
    gd_go_on
    if ((!gd_tasks)); then gd_send CONT "-$gd_leader"; fi  # srun would write of it
}

gd_in_group() {
    local stat=''
    read -r -d '' stat <"/proc/$1/stat"
    set -- ${stat##*) }
    [ "${3-}" = "$gd_leader" ]
}

gd_stop_rest() {
    local pid
    gd_find
    for pid in ${gd_found[@]+"${gd_found[@]}"}; do
        if [ -z "${gd_reached[$pid]-}" ]; then
            gd_send "$gd_last_signal" "$pid"
            gd_send CONT "$pid"
            gd_reached[$pid]=1
        fi
    done
}

gd_kill() {
    local before=-1
    if [ -z "$gd_code" ]; then gd_step KILL; fi
    gd_find
    while ((${#gd_found[@]} != before)); do  # until none of them begets others
        before=${#gd_found[@]}
        gd_send STOP ${gd_found[@]+"${gd_found[@]}"}
        gd_find
    done
    gd_send KILL ${gd_found[@]+"${gd_found[@]}"}
}

gd_warn() {  # those on this node who catch it, once there is one; the other nodes do alike
    local pid sent='' number=$gd_warning
    case $number in *[!0-9]*) number=$(kill -l "$number") ;; esac
    if ((gd_nodes > 1)) && [ "$gd_warned" != "$gd_warning" ]; then
        gd_warned=$gd_warning
        gd_warn_others "$number" &
    fi
    gd_find
    for pid in ${gd_found[@]+"${gd_found[@]}"}; do
        if gd_is_here "$pid" && gd_catches "$number" "$pid"; then gd_send "$number" "$pid" && sent=1; fi
    done
    if [ -n "$sent" ]; then gd_warning=''; fi
}

gd_is_here() {  # where nodes share a kernel, as in a container
    ((gd_nodes == 1)) || [ -z "${SLURMD_NODENAME-}" ] ||
        grep -qsazxF -e "SLURMD_NODENAME=$SLURMD_NODENAME" "/proc/$1/environ"
}

gd_catches() {  # signal's number, process
    local key mask
    while read -r key mask; do
        if [ "$key" = SigCgt: ]; then
            (((16#$mask >> ($1 - 1)) & 1))
            return
        fi
    done <"/proc/$2/status"
    return 1
}

gd_warn_others() {  # signal's number. A step of the job on the other nodes
    trap '' TERM INT USR2 HUP QUIT USR1 ALRM
    unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS_PER_NODE  # srun of 23.11 wants these to agree
    srun --overlap --relative=1 --nodes="$((gd_nodes - 1))" --ntasks="$((gd_nodes - 1))" --ntasks-per-node=1 \
        --cpus-per-task=1 --mem=0 --gres=none --export=ALL --kill-on-bad-exit=0 --quiet \
        /bin/bash -pc "$(declare -f gd_is_here gd_catches gd_warn_here); gd_nodes=$gd_nodes; gd_warn_here $1 $gd_token" \
        </dev/null 7>&-
}

gd_warn_here() {  # signal's number, token
    local file pid sent='' try
    for try in {1..60}; do
        for file in $(grep -lsazxF -e "GPUDECK_TOKEN=$2" /proc/[0-9]*/environ); do
            pid=${file#/proc/} pid=${pid%/environ}
            if gd_is_here "$pid" && gd_catches "$1" "$pid"; then kill -s "$1" -- "$pid" && sent=1; fi
        done
        if [ -n "$sent" ]; then return; fi
        sleep 1
    done
}

gd_stand_still() {  # another copy may be started meanwhile, and must find nobody who writes
    gd_find near
    gd_stopped="${gd_found[*]-}"
    gd_send STOP $gd_stopped
}

gd_go_on() {
    if [ -n "$gd_stopped" ]; then
        gd_send CONT $gd_stopped
        gd_stopped=''
    fi
}

gd_sample() {
    local line
    nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw \
        --format=csv,noheader,nounits --loop=5 ${CUDA_VISIBLE_DEVICES:+-i "$CUDA_VISIBLE_DEVICES"} |
        while read -r line; do printf '%(%s)T,%s\n' -1 "${line// /}" >>"$gd_files.gpu"; done
}

# The command.

gd_meet() {  # where tasks of several nodes find each other: the nodes' names may not resolve
    local first='' node=''
    first=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" 2>/dev/null)
    node=$(scontrol show node "${first%%$'\n'*}" 2>/dev/null)
    if [[ $node =~ NodeAddr=([^[:space:]]+) ]]; then gd_address=${BASH_REMATCH[1]}; fi
}

gd_start() {
    local cores gd_address=''
    trap - TERM INT USR2 HUP QUIT USR1 ALRM
    exec >>"$gd_out" 2>>"$gd_err" 7>&-
    umask "$gd_umask"
    if [ -n "$gd_setup" ]; then exec 8>"$gd_files.setup"; fi
    cores=${SLURM_CPUS_PER_TASK:+$((SLURM_CPUS_PER_TASK * (gd_tasks ? gd_tasks : 1)))}
    cores=$((${cores:-${SLURM_CPUS_ON_NODE:-1}} / gd_ranks))
    if ((gd_tasks && gd_nodes > 1)); then gd_meet; elif ((gd_tasks)); then gd_address=127.0.0.1; fi
    if ((gd_tasks)); then
        gd_argv=("$(type -P srun || echo srun)" --kill-on-bad-exit=1 --export=ALL --nodes="$gd_nodes"
            --ntasks="$((gd_nodes * gd_tasks))" --ntasks-per-node="$gd_tasks"
            ${gd_cpus:+--cpus-per-task="$gd_cpus"} "${gd_argv[@]}")
    fi
    if [ -n "$gd_setup" ]; then gd_argv=(/bin/bash -c "$gd_setup" gpudeck "${gd_argv[@]}"); fi
    gd_environment
    export OMP_NUM_THREADS="${OMP_NUM_THREADS-$((cores > 0 ? cores : 1))}"
    export MKL_NUM_THREADS="${MKL_NUM_THREADS-$OMP_NUM_THREADS}"
    if [ -n "$gd_address" ]; then
        export MASTER_ADDR="${MASTER_ADDR-$gd_address}"
        export MASTER_PORT="${MASTER_PORT-$((15000 + SLURM_JOB_ID % 10000))}"  # as gpudeck.distributed has it
    fi
    unset LC_ALL  # at last: the task's LANG has no meaning for bash before
    if [ -n "$gd_locale" ]; then export LC_ALL="$gd_locale"; fi
    if ((${#gd_odd[@]} == 1)) && type -P -- "${gd_argv[0]}" >/dev/null; then exec -- "${gd_argv[@]}"; fi
    exec /usr/bin/env "${gd_odd[@]}" "${gd_argv[@]}"
}

gd_help() {  # those that look after a command that runs for longer than a moment
    gd_watch &
    gd_watcher=$!
    if ((gd_gpus)) && type -P nvidia-smi; then
        gd_sample &
        gd_sampler=$!
    fi
}

gd_listen
gd_private
gd_take_claim
gd_begin
exec >/dev/null 2>&1  # bash says who ended by a signal
cd -- "$gd_cwd" || gd_end spawn-cwd 125
umask "$gd_umask"
{ : >>"$gd_out" && : >>"$gd_err"; } || gd_end spawn-log 125
umask 077
set -m  # a group for each, and nobody ignores INT
gd_start &
gd_leader=$!
cd /proc
while [ -e "/proc/$gd_leader" ]; do
    gd_pause_after "$gd_began"
    gd_await "$gd_pause"
    gd_tick
done
while gd_woken=''; wait "$gd_leader"; gd_code=$?; [ -n "$gd_woken" ]; do :; done  # a signal ends a wait, too
gd_epoch
gd_wall=$gd_value
gd_clock
gd_ms "$gd_linger_s"
gd_left=$gd_now gd_linger_until=$((gd_now + gd_value))
while [ -n "$gd_kill_at" ] || [ "$gd_leftovers" != leave ]; do
    if gd_none_left; then break; fi
    gd_pause_after "$gd_left"
    gd_await "$gd_pause"
    gd_tick
    if [ "$gd_leftovers" = stop ] && [ -z "$gd_kill_at" ] && ((gd_now >= gd_linger_until)); then
        gd_stop "$gd_signal" "$gd_grace_s" group
    fi
done
if [ -n "$gd_setup" ] && [ -z "$gd_kill_at" ] && ! grep -q ready "$gd_files.setup"; then gd_end setup 125; fi
gd_end "$gd_code" "$gd_code"

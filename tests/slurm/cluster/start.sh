#!/usr/bin/env bash
# start.sh DIR: a Slurm of its own in DIR, with several nodes on this host and GPUs that are files. What runs already is
# left alone, so it also brings back what died. Ports are free ones, so several can run at once. Root is only needed to
# install what is missing.
#
#   NODES=2 GPUS=4 CPUS=8 MEM=8000    of each node
#   GPU_TYPES="a100 h100"             a type a node, in turns; none: GPUs without a type
#   ACCT=1                            slurmdbd and MariaDB, so that sacct and sacctmgr work
#   MIN_JOB_AGE=300 KILL_WAIT=5 SLURMD_TIMEOUT=10 PREEMPT_MODE=REQUEUE SCHED=…
#   EXTRA=$'line\nline'               more lines for slurm.conf
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(realpath -m "$1")
nodes_wanted=${NODES:-2} gpus=${GPUS:-4} cpus=${CPUS:-8} mem=${MEM:-8000} acct=${ACCT:-}
read -r -a types <<<"${GPU_TYPES:-}"
PATH=$PATH:/usr/sbin:/sbin

die() { printf 'start.sh: %s\n' "$*" >&2; exit 1; }
have() { local name; for name; do command -v "$name" >/dev/null || return 1; done; }

install() { # PACKAGE…
  ((EUID == 0)) || die "Slurm is not installed: as root, apt-get install --no-install-recommends $*"
  local apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
  { "${apt[@]}" update && DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "$@"; } \
    </dev/null >"$dir/log/apt.log" 2>&1 || die "apt-get install $*: $(tail -n 1 "$dir/log/apt.log")"
}

runs() { # PIDFILE: whether a daemon of this name lives; a zombie does not
  local pid stat
  [[ -s $1 ]] && pid=$(<"$1") && stat=$({ cat "/proc/$pid/stat"; } 2>/dev/null) || return 1
  [[ $stat =~ ^[0-9]+\ \((munged|mariadbd|slurm[a-z]*)\)\ [^ZX] ]]
}

until_true() { # WHAT SECONDS COMMAND…
  local what=$1 end=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { tail -n 15 "$dir"/log/*.log >&2; sinfo -h -N -o '%N %T %E' >&2 || true; die "$what did not come up"; }
    sleep 0.05
  done
}

free_ports() { # COUNT: below those that the kernel gives to outgoing connections, so that they stay free while a daemon restarts
  python3 - "$1" <<'PYTHON'
import random, socket, sys

held = []
while len(held) < int(sys.argv[1]):
    probe = socket.socket()
    try:
        probe.bind(("127.0.0.1", random.randrange(10000, 32000)))
        held.append(probe)
    except OSError:
        probe.close()
print(*(probe.getsockname()[1] for probe in held))
PYTHON
}

fill() { # TEMPLATE: its $names from the environment
  python3 -c 'import os, string, sys; print(string.Template(open(sys.argv[1]).read()).substitute(os.environ), end="")' "$1"
}

mkdir -p "$dir"/{etc,run,log,state,spool,dev}
have slurmctld slurmd sbatch munged || install slurmctld slurmd slurm-client munge
[[ -z $acct ]] || have slurmdbd mariadbd || install slurmdbd mariadb-server

[[ -s $dir/etc/ports ]] || free_ports $((4 + nodes_wanted)) >"$dir/etc/ports"
read -r -a ports <"$dir/etc/ports"
export dir host user nodes='' accounting='' ctld_port=${ports[0]} slurmd_port=${ports[1]} dbd_port=${ports[2]} db_port=${ports[3]}
host=$(hostname -s) user=$(id -un)
export min_job_age=${MIN_JOB_AGE:-300} kill_wait=${KILL_WAIT:-5} slurmd_timeout=${SLURMD_TIMEOUT:-10}
export preempt_mode=${PREEMPT_MODE:-REQUEUE} extra=${EXTRA:-}
export sched=${SCHED:-sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=1}

# CUDA_VISIBLE_DEVICES is only set for GPUs with a device file; a link to a device is one.
for ((g = 0; g < gpus; g++)); do ln -sfn /dev/null "$dir/dev/gpu$g"; done
: >"$dir/etc/gres.conf.new"
for ((n = 1; n <= nodes_wanted; n++)); do
  type=${types[*]:+${types[(n - 1) % ${#types[@]}]}}
  mkdir -p "$dir/spool/node$n"
  gres=''
  if ((gpus > 0)); then
    gres="Gres=gpu:${type:+$type:}$gpus"
    echo "NodeName=node$n Name=gpu ${type:+Type=$type }Flags=nvidia_gpu_env File=$dir/dev/gpu[0-$((gpus - 1))]" >>"$dir/etc/gres.conf.new"
  fi
  nodes+="NodeName=node$n NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[3 + n]} CPUs=$cpus RealMemory=$mem $gres State=UNKNOWN"$'\n'
done
if [[ -n $acct ]]; then
  accounting="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd_port
AccountingStoragePass=$dir/run/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment"
else
  accounting="AccountingStorageType=accounting_storage/none"
fi
{ echo AutoDetect=off; cat "$dir/etc/gres.conf.new"; } >"$dir/etc/gres.conf"
rm "$dir/etc/gres.conf.new"
fill "$here/slurm.conf.in" >"$dir/etc/slurm.conf"
# Loaded, never used: without it slurmd looks for cgroups, and a container may have none.
echo CgroupPlugin=cgroup/v1 >"$dir/etc/cgroup.conf"
export SLURM_CONF=$dir/etc/slurm.conf

[[ -s $dir/etc/munge.key ]] || (umask 077 && head -c 128 /dev/urandom >"$dir/etc/munge.key")
runs "$dir/run/munged.pid" || munged --force --key-file="$dir/etc/munge.key" --socket="$dir/run/munge.sock" \
  --pid-file="$dir/run/munged.pid" --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed"

sql() { mariadb --no-defaults --socket="$dir/run/db.sock" --user=root "$@"; }
if [[ -n $acct ]]; then
  if [[ ! -d $dir/db/mysql ]]; then
    mariadb-install-db --no-defaults --datadir="$dir/db" --user="$user" --auth-root-authentication-method=normal \
      --skip-test-db >"$dir/log/db-install.log" 2>&1 || die "mariadb-install-db: $(tail -n 1 "$dir/log/db-install.log")"
  fi
  if ! runs "$dir/run/mariadbd.pid"; then
    setsid mariadbd --no-defaults --datadir="$dir/db" --user="$user" --socket="$dir/run/db.sock" \
      --pid-file="$dir/run/mariadbd.pid" --bind-address=127.0.0.1 --port="$db_port" --innodb-buffer-pool-size=64M \
      --innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900 </dev/null >"$dir/log/mariadbd.log" 2>&1 &
  fi
  until_true MariaDB 30 sql -e 'select 1'
  for at in 127.0.0.1 localhost; do
    sql -e "create database if not exists slurm_acct; create user if not exists slurm@'$at' identified by 'slurm';
            grant all on slurm_acct.* to slurm@'$at'"
  done
  (umask 077 && fill "$here/slurmdbd.conf.in" >"$dir/etc/slurmdbd.conf")
  runs "$dir/run/slurmdbd.pid" || slurmdbd
  until_true slurmdbd 30 sacctmgr -n -i list cluster
  sacctmgr -n -P list cluster format=cluster | grep -q -x deck || sacctmgr -i -Q add cluster deck
fi

daemons() { # those that do not run
  began=$SECONDS
  runs "$dir/run/slurmctld.pid" || slurmctld
  for ((n = 1; n <= nodes_wanted; n++)); do runs "$dir/run/slurmd-node$n.pid" || slurmd -N "node$n"; done
}
all_up() { # the state as printed: `sinfo -t idle` would list drained nodes too
  ((SECONDS - began < 10)) || daemons  # one may have been on its way out; no sooner: a new one ends one that comes up
  [[ $(sinfo -h -N -p main -o '%N %T' | grep -c -E ' (idle|mixed|allocated)$') == "$nodes_wanted" ]]
}
daemons
# The controller asks again after a minute whether a job has ended that was on a node as the node went down.
until_true "Slurm in $dir" 150 all_up
echo "export SLURM_CONF=$SLURM_CONF"

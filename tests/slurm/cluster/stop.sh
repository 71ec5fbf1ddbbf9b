#!/usr/bin/env bash
# stop.sh DIR: ends the Slurm that start.sh started in DIR, and what its jobs left: each by its pid.
set -uo pipefail
dir=$(realpath -m "$1")
conf=$dir/etc/slurm.conf

lives() { # PID; a zombie does not
  local stat
  stat=$({ cat "/proc/$1/stat"; } 2>/dev/null) && [[ $stat =~ \)\ [^ZX] ]]
}

# Steps have their working directory in DIR and outlive slurmd; the processes of jobs are below them, or have the
# job's variables when their step is gone.
steps() {
  local link pid
  find /proc -maxdepth 2 -name cwd -lname "$dir/*" 2>/dev/null | while read -r link; do
    pid=${link#/proc/} pid=${pid%/cwd}
    [[ $({ cat "/proc/$pid/comm"; } 2>/dev/null) == slurmstepd ]] && echo "$pid"
  done
}
below() { # PID…: they and all that descends from them
  ps -eo pid=,ppid= | awk -v roots="$*" '
    { parent[$1] = $2 }
    END { split(roots, list, " "); for (i in list) root[list[i]]
          for (pid in parent) for (p = pid; p > 1; p = parent[p]) if (p in root) { print pid; break } }'
}
orphans() {
  local ours
  mapfile -t ours < <(grep -l -a -z -x -F "SLURM_CONF=$conf" /proc/[0-9]*/environ 2>/dev/null)
  grep -l -a -z '^SLURM_JOB_ID=' "${ours[@]}" /dev/null 2>/dev/null | sed 's|/proc/||; s|/environ||'
}

kill -9 $(below $(steps)) $(orphans) 2>/dev/null
for file in "$dir"/run/slurmd-*.pid "$dir"/run/{slurmctld,slurmdbd,mariadbd,munged}.pid; do
  [[ -s $file ]] || continue
  pid=$(<"$file")
  if [[ $({ cat "/proc/$pid/comm"; } 2>/dev/null) =~ ^(munged|mariadbd|slurm) ]]; then
    kill "$pid" 2>/dev/null
    for ((i = 0; i < 100; i++)); do lives "$pid" || break; sleep 0.05; done
    ((i < 100)) || kill -9 "$pid" 2>/dev/null
  fi
  rm -f "$file"
done
kill -9 $(below $(steps)) $(orphans) 2>/dev/null  # what began meanwhile
exit 0

#!/usr/bin/env bash
# with_slurm.sh COMMAND ...: runs the command in a one-machine Slurm cluster of its own (munged, slurmctld, slurmd in a temporary folder),
# and leaves nothing. Needs root, and Debian's slurm-wlm and munge. Exit code: the command's; 77 where they are missing.
set -euo pipefail
for program in munged slurmctld slurmd srun; do
  command -v "$program" >/dev/null || { echo "there is no $program here"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "Slurm's daemons need root"; exit 77; }

work=$(mktemp -d)
chmod 755 "$work"
port=$((20000 + $$ % 20000))
stop() {
  for daemon in slurmd slurmctld munged; do
    [ -f "$work/$daemon.pid" ] && kill "$(cat "$work/$daemon.pid")" 2>/dev/null
  done
  for _ in $(seq 100); do  # up to ten seconds
    alive=0
    for daemon in slurmd slurmctld munged; do
      [ -f "$work/$daemon.pid" ] && kill -0 "$(cat "$work/$daemon.pid")" 2>/dev/null && alive=1
    done
    [ $alive = 0 ] && break
    read -rt 0.1 <> <(:) || true
  done
  rm -rf "$work"
}
trap stop EXIT

mkdir "$work/spool" "$work/state"
dd if=/dev/urandom of="$work/munge.key" bs=32 count=1 status=none
chmod 400 "$work/munge.key"
munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" --seed-file="$work/munge.seed" \
  --log-file="$work/munged.log" 2>/dev/null
cores=$(nproc)
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$cores State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF
export SLURM_CONF="$work/slurm.conf"
slurmctld
slurmd -N localhost
for _ in $(seq 300); do  # until the node is there, up to thirty seconds
  [ "$(sinfo -h -o %t 2>/dev/null)" = idle ] && break
  read -rt 0.1 <> <(:) || true
done
[ "$(sinfo -h -o %t)" = idle ] || { echo "the node did not come up:"; tail -n 20 "$work"/slurm*.log; exit 1; }
"$@"

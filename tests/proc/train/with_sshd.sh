#!/usr/bin/env bash
# with_sshd.sh COMMAND ...: runs the command while an sshd of its own listens on loopback; SSH in its environment is how to get there.
# Leaves nothing. Needs Debian's openssh-server and openssh-client. Exit code: the command's; 77 where they are missing.
set -euo pipefail
for program in /usr/sbin/sshd ssh ssh-keygen; do
  command -v "$program" >/dev/null || { echo "there is no $program here"; exit 77; }
done
work=$(mktemp -d)
chmod 700 "$work"
port=$((20000 + $$ % 20000))
stop() {
  [ -f "$work/sshd.pid" ] && kill "$(cat "$work/sshd.pid")" 2>/dev/null
  rm -rf "$work"
}
trap stop EXIT
ssh-keygen -q -t ed25519 -N "" -f "$work/host_key"
ssh-keygen -q -t ed25519 -N "" -f "$work/user_key"
cp "$work/user_key.pub" "$work/authorized"
mkdir -p /run/sshd  # where sshd keeps its privileges apart
cat >"$work/sshd_config" <<CONF
Port $port
ListenAddress 127.0.0.1
HostKey $work/host_key
PidFile $work/sshd.pid
AuthorizedKeysFile $work/authorized
PasswordAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
LogLevel ERROR
CONF
/usr/sbin/sshd -f "$work/sshd_config" -E "$work/sshd.log"
export SSH="ssh -p $port -i $work/user_key -o UserKnownHostsFile=$work/known -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR -o BatchMode=yes"
for _ in $(seq 100); do
  $SSH 127.0.0.1 true 2>/dev/null && break
  read -rt 0.1 <> <(:) || true
done
"$@" || { code=$?; cat "$work/sshd.log"; exit $code; }

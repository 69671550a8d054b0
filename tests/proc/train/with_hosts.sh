#!/usr/bin/env bash
# with_hosts.sh N COMMAND ...: runs the command where N hosts are: network namespaces that a bridge joins. The command is in a namespace
# of its own, which has the bridge. In its environment: HOST_1 .. HOST_N, their addresses; SSH, in place of ssh; NETNS_1 .. NETNS_N, the
# namespaces' names (their interface is eth0, its other end at the bridge `port-K`). Leaves nothing. Needs root, ip. Exit code: the
# command's; 77 where that is missing.
set -euo pipefail
[ "$(id -u)" -eq 0 ] || { echo "network namespaces need root"; exit 77; }
command -v ip >/dev/null || { echo "there is no ip (iproute2) here"; exit 77; }
count=$1
shift
prefix=${TROUPE_TEST_PREFIX:-troupe}-$$
work=$(mktemp -d)
hub=$prefix-hub
stop() {
  for ns in $(ip netns list | cut -d' ' -f1); do
    case $ns in "$prefix"-*) ip netns del "$ns" ;; esac  # and all interfaces in it
  done
  rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP
ip netns add "$hub" 2>"$work/why" || { echo "a network namespace cannot be made: $(cat "$work/why")"; exit 77; }
ip -n "$hub" link set lo up
ip -n "$hub" link add bridge type bridge 2>"$work/why" || { echo "a bridge cannot be made: $(cat "$work/why")"; exit 77; }
ip -n "$hub" addr add 10.213.0.1/24 dev bridge
ip -n "$hub" link set bridge up
for ((k = 1; k <= count; ++k)); do
  ns=$prefix-host-$k
  ip netns add "$ns"
  ip -n "$hub" link add "port-$k" type veth peer name eth0 netns "$ns"
  ip -n "$hub" link set "port-$k" master bridge up
  ip -n "$ns" addr add "10.213.0.$((k + 10))/24" dev eth0
  ip -n "$ns" link set lo up
  ip -n "$ns" link set eth0 up
  export "HOST_$k=10.213.0.$((k + 10))" "NETNS_$k=$ns"
done
cat >"$work/ssh" <<SH
#!/bin/sh
# HOST COMMAND
host=\$1
shift
exec ip netns exec $prefix-host-\$((\${host##*.} - 10)) sh -c "\$*"
SH
chmod +x "$work/ssh"
export SSH="$work/ssh"
ip netns exec "$hub" "$@"

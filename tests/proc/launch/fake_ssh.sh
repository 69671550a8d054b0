#!/bin/sh
# In place of ssh: "fake_ssh.sh HOST COMMAND" gives the command to a shell of this machine, as sshd would on the host.
echo "welcome to $1"
shift
exec sh -c "$*"

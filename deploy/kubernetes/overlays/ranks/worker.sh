#!/bin/bash
# Waits for mpirun of the leader, which starts the server's process here by ssh. One key pair identifies both sides. When
# a pod of the group restarts, the controller replaces this one, too.
set -euo pipefail
exec /usr/sbin/sshd -D -e -f /dev/null -h /run/secrets/ssh/ssh-privatekey -p "$SSH_PORT" \
  -o AuthorizedKeysFile=/run/secrets/ssh/ssh-publickey -o StrictModes=no -o PidFile=none -o UsePAM=no \
  -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o AllowTcpForwarding=no

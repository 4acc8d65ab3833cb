#!/bin/bash
# Starts one process of the server on each pod of the group, the first one here: leader.sh SERVER-ARGUMENT...
set -euo pipefail
domain=${LWS_LEADER_ADDRESS#*.}
hosts=$HOSTNAME:1
known=/tmp/known_hosts
printf '[*]:%s %s\n' "$SSH_PORT" "$(cat /run/secrets/ssh/ssh-publickey)" >$known
ssh="ssh -F /dev/null -p $SSH_PORT -i /run/secrets/ssh/ssh-privatekey -o UserKnownHostsFile=$known -o LogLevel=ERROR"
ssh+=' -o BatchMode=yes -o ConnectTimeout=2 -o ServerAliveInterval=5'
for ((index = 1; index < LWS_GROUP_SIZE; ++index)); do
  worker=$HOSTNAME-$index.$domain
  until $ssh "$worker" true; do sleep 1; done
  hosts+=,$worker:1
done
# The ports are those of the NetworkPolicy.
mpirun --host "$hosts" -np "$LWS_GROUP_SIZE" --bind-to none --enable-recovery \
  --mca plm_rsh_agent "$ssh" --mca plm_rsh_no_tree_spawn 1 \
  --mca btl_tcp_if_include "$MPI_INTERFACE" --mca oob_tcp_if_include "$MPI_INTERFACE" \
  --mca btl_tcp_port_min_v4 10000 --mca btl_tcp_port_range_v4 100 --mca oob_tcp_dynamic_ipv4_ports 10100-10199 \
  ringside-server "$@" &
mpirun=$!
# SIGTERM is for the server, mpirun's child: mpirun itself would kill the other ranks before they have stopped.
stop() {
  local status
  for status in $(grep -lsx "PPid:[[:space:]]*$mpirun" /proc/[0-9]*/status); do
    kill "$(basename "${status%/status}")"
  done
}
trap stop TERM
# mpirun must not be the container's first process: as such it does not notice that a rank has died.
while [[ -e /proc/$mpirun ]]; do
  wait $mpirun && code=0 || code=$?
done
exit "$code"

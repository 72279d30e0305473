#!/bin/bash
# Walks through Temporal's web UI on the engine.
#
# The UI is part of Temporal's dev server and talks to the port of that server. Both run in a network namespace of their
# own, where connections to the port are redirected to the engine's once the dev server is up. Needs root, nftables,
# Debian's Chromium and the npm package playwright-core (its directory is WINDLASS_PLAYWRIGHT).
#
# Arguments: the program it-engine, the Temporal CLI, Python's SDK (a directory).
set -euo pipefail
engine=$1 cli=$2 sdk=$3
here=$(dirname "$(realpath "$0")")
directory=$(mktemp -d)
net=windlass-ui-$$
pids=()
inside() { ip netns exec "$net" "$@"; }
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$net" 2>/dev/null || true
    rm -rf "$directory"
}
trap finish EXIT
# A server is there when something accepts connections.
listens() { until inside bash -c "exec 3<>/dev/tcp/127.0.0.1/$1" 2>/dev/null; do sleep 0.1; done; }

ip netns add "$net"
ip -n "$net" link set lo up
mkfifo "$directory/leash"
exec 9<>"$directory/leash"
inside "$engine" "$directory" 7300 <&9 >"$directory/engine.log" 2>&1 & pids+=($!)
inside "$cli" server start-dev --port 7233 --ui-port 8233 --log-level never >"$directory/server.log" 2>&1 & pids+=($!)
listens 7300
listens 7233
listens 8233
inside nft add table ip nat
inside nft 'add chain ip nat output { type nat hook output priority -100; }'
inside nft add rule ip nat output tcp dport 7233 redirect to :7300
PYTHONPATH=$sdk ip netns exec "$net" python3 "$here/worker.py" 127.0.0.1:7300 ui <&9 >"$directory/worker.log" 2>&1 & pids+=($!)
until grep -qs ready "$directory/worker.log"; do sleep 0.1; done
run=$(inside "$cli" workflow start --address 127.0.0.1:7300 --type Greeting --task-queue ui --workflow-id order-1 \
    --input '"you"' --output json | python3 -c 'import json, sys; print(json.load(sys.stdin)["runId"])')
# The UI's own connections to the dev server are gone when it knows the engine's cluster.
until inside curl -s http://127.0.0.1:8233/api/v1/cluster-info | grep -q '"clusterName": "windlass"'; do sleep 0.2; done
inside node "$here/ui.mjs" http://127.0.0.1:8233 default order-1 "$run"

"""An MCP server of 2025-11-25 on standard input and output, for tests of processes."""

import json
import os
import subprocess
import sys

started = sys.argv[1]
with open(started, "a") as file:
    file.write("x\n")
if "exit-at-start" in sys.argv:
    print("no configuration", file=sys.stderr)
    sys.exit(3)

waiting = []


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(request, words):
    send({"id": request, "result": {"content": [{"type": "text", "text": words}]}})


for line in sys.stdin:
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "child", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        send({"id": request, "result": result})
    elif method == "server/discover":
        if "exit-on-discover" in sys.argv:
            sys.exit(1)
        send({"id": request, "error": {"code": -32601, "message": "no such method"}})
    elif method == "tools/list":
        if "hang-on-list" not in sys.argv:
            send({"id": request, "result": {"tools": [{"name": "pid", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        tool = message["params"]["name"]
        if tool == "pid":
            text(request, str(os.getpid()))
        elif tool == "environment":
            text(request, " ".join(sorted(os.environ)))
        elif tool == "descendant":
            # It holds the server's output open.
            text(request, str(subprocess.Popen(["sleep", "1000"]).pid))
        elif tool == "die":
            sys.exit(0)
        elif tool == "wait":
            waiting.append(request)
            with open(started + ".waiting", "a") as file:
                file.write("x\n")
        elif tool == "ask":
            asked = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
            send({"id": "q1", "method": "elicitation/create", "params": asked})
            waiting.append(request)
    elif request == "q1":
        answer = message.get("error", {}).get("message") or message["result"]["action"]
        text(waiting.pop(), answer)

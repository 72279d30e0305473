"""An MCP server over stdio that does what its argument says before it answers a call."""

import json
import sys
import time

ATTACK = sys.argv[1]
MIB = 1024 * 1024


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def flood(method, count):
    for number in range(count):
        send({"id": f"s{number}", "method": method, "params": {}})


def attack(request):
    """Returns whether the call is answered as usual after it."""
    match ATTACK:
        case "invalid-utf8":
            raw(b'{"jsonrpc":"2.0","id":1,"result":"\xff\xfe\xc0"}\n\xed\xa0\x80\n')
        case "endless-line":
            for _ in range(100):
                raw(b"x" * MIB)
            raw(b"\n")
        case "endless-line-with-the-answer":
            raw(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % request)
            for _ in range(100):
                raw(b"x" * MIB)
            raw(b'"}]}}\n')
            return False
        case "endless-stderr":
            for _ in range(100):
                sys.stderr.write("e" * MIB)
        case "garbage":
            for number in range(10_000):
                raw(b"INFO %d not JSON\n{}\n[]\nnull\n7\n" % number)
        case "deep-json":
            raw(b"[" * 500_000 + b"\n" + b'{"a":' * 500_000 + b"\n")
        case "wrong-id":
            send({"id": 999, "result": own()})
            return False
        case "another-answer":
            send({"id": 999, "result": {"content": [{"type": "text", "text": "never asked for"}]}})
            send({"id": None, "error": {"code": -32000, "message": "for no request"}})
        case "answer-twice":
            send({"id": request, "result": own()})
            send({"id": request, "result": {"content": [{"type": "text", "text": "other"}]}})
            return False
        case "flood-ping":
            flood("ping", 2_000)
        case "flood-sampling":
            flood("sampling/createMessage", 2_000)
        case "flood-roots":
            flood("roots/list", 2_000)
        case "flood-list-changed":
            for _ in range(20_000):
                send({"method": "notifications/tools/list_changed"})
        case "half-a-line":
            raw(b'{"jsonrpc":"2.0","id":%d,' % request)
            sys.exit(0)
        case "close-output":
            sys.stdout.close()
            time.sleep(1000)
    return True


def own():
    return {"content": [{"type": "text", "text": "own"}]}


for line in sys.stdin:
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if method == "initialize":
        version = "2025-11-25" if ATTACK != "old-version" else "2024-11-05"
        info = {"name": "h", "version": "1"}
        send({"id": request, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
        if ATTACK == "never-read":
            time.sleep(1000)
    elif method == "server/discover":
        send({"id": request, "error": {"code": -32601, "message": "no such method"}})
    elif method == "tools/call" and attack(request):
        send({"id": request, "result": own()})

"""Tests a model of a local OpenAI-compatible server, and runs an agent on it. The server is aimock; its answers are fixed.

    PYTHONPATH=<pyte> AIMOCK=<program> python3 models.py WINDLASS OUT.svg
"""

import json
import os
import subprocess
import time
import urllib.request

from terminal import record, shows

# The address of the built-in provider `vllm`.
PORT = "8000"
AGENT = """id = "tides"
model = "vllm:qwen3"
system_prompt = "You know the tides."

[[tools]]
name = "clock"
"""
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "Write the single word: ready. Then call the tool `clock` once."},
            "response": {"content": "ready", "toolCalls": [{"name": "clock", "arguments": {}}]},
        },
        {
            "match": {"userMessage": "When is high tide?", "hasToolResult": True},
            "response": {"content": "The next high tide in Hamburg is in three hours and ten minutes."},
        },
        {
            "match": {"userMessage": "When is high tide?"},
            "response": {"content": "I look at the clock.", "toolCalls": [{"name": "clock", "arguments": {}}]},
        },
    ]
}


def wait_for_server():
    for _ in range(200):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=1).read()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("aimock did not start")


def play(windlass, recording):
    run = recording.run
    with open("tides.toml", "w", encoding="utf-8") as file:
        file.write(AGENT)
    with open("fixtures.json", "w", encoding="utf-8") as file:
        json.dump(FIXTURES, file)
    server = subprocess.Popen(
        ["node", os.environ["AIMOCK"], "--port", PORT, "--fixtures", "fixtures.json", "--latency", "40", "--chunk-size", "6"],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_server()
        recording.shell(run, "windlass models test vllm:qwen3", [windlass, "models", "test", "vllm:qwen3"])
        recording.watch(30, lambda recording: run.master is None)
        recording.watch(1.2)
        recording.shell(run, "cat tides.toml")
        run.draw(AGENT)
        recording.watch(1.2)
        recording.shell(
            run, "windlass run tides.toml 'When is high tide?'", [windlass, "run", "tides.toml", "When is high tide?"]
        )
        recording.watch(60, lambda recording: run.master is None)
        run.draw("$ ")
        recording.watch(0.5, shows("completed"))
    finally:
        server.terminate()


if __name__ == "__main__":
    record(play, 0, 30, "windlass models test and windlass run against a local OpenAI-compatible server")

"""Plays the demo in real pseudo-terminals, with `kill -9` of the server in the middle, and draws what they showed.

    PYTHONPATH=<pyte> python3 demo.py WINDLASS OUT.svg
"""

import os
import signal

from terminal import record, shows


def play(windlass, recording):
    server, run = recording.server, recording.run
    # The log goes to stderr and stays out of the picture.
    recording.shell(server, "windlass dev", [windlass, "dev", "--log", "off"])
    recording.watch(30, shows("Try  ", "server"))
    recording.watch(0.8)
    recording.shell(run, "windlass run demo", [windlass, "run", "demo"])
    recording.watch(60, shows("answer to await-1>"))
    recording.watch(1.2)
    os.kill(server.pid, signal.SIGKILL)
    recording.watch(10, lambda recording: server.master is None)
    server.draw("Killed     # kill -9, from a third terminal\n")
    recording.watch(10, shows("server gone"))
    recording.watch(1.5)
    recording.shell(server, "windlass dev", [windlass, "dev", "--log", "off"])
    recording.watch(30, lambda recording: "".join(server.screen.display).count("Try  ") == 2)
    recording.watch(30, shows("server is back"))
    recording.watch(0.8)
    recording.type(run, "the team\n")
    recording.watch(60, shows("[y/n/always/later]"))
    recording.watch(1.5)
    recording.type(run, "y\n")
    recording.watch(60, lambda recording: run.master is None)
    run.draw("$ ")
    recording.watch(0.5)
    os.kill(server.pid, signal.SIGTERM)
    while server.master is not None:
        server.read()


if __name__ == "__main__":
    record(play, 9, 41, "windlass run demo, through kill -9 of its server")

"""A scenario that hangs says where, before whoever started it loses patience."""

import json
import os
import sys
import threading
import traceback

# Between two steps of a scenario.
PATIENCE = 80

timer = None


def step(line=None):
    """Gives the scenario time for its next step, after printing a line about this one."""
    global timer
    if line is not None:
        print(json.dumps(line), flush=True)
    if timer is not None:
        timer.cancel()
    timer = threading.Timer(PATIENCE, out_of_time)
    timer.daemon = True
    timer.start()


def out_of_time():
    frames = sys._current_frames()
    stacks = "\n".join("".join(traceback.format_stack(frame)[-4:]) for frame in frames.values())
    print(json.dumps({"broken": f"nothing happened for {PATIENCE} s\n{stacks}"}), flush=True)
    os._exit(1)

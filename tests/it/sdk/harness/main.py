"""Runs one scenario with the SDK that is on the path and prints what came of it as one line of JSON.

    main.py SCENARIO        with WINDLASS_URL, WINDLASS_KEY, WINDLASS_WORKSPACE in the environment

The last line is {"facts": …} or {"broken": …}; before it, a scenario may say {"at": …} and wait for a line of its
standard input. What the facts should be is not decided here."""

import json
import os
import sys
import threading
import traceback

PATIENCE = 80


def out_of_time():
    """A scenario that hangs says where."""
    frames = sys._current_frames()
    stacks = "\n".join("".join(traceback.format_stack(frame)[-4:]) for frame in frames.values())
    say({"broken": f"it did not end within {PATIENCE} s\n{stacks}"})
    os._exit(1)


def say(line):
    print(json.dumps(line), flush=True)


def main():
    watchdog = threading.Timer(PATIENCE, out_of_time)
    watchdog.daemon = True
    watchdog.start()
    try:
        import scenarios
        from world import World

        say({"facts": scenarios.ALL[sys.argv[1]](World.from_environment())})
    except BaseException:
        say({"broken": traceback.format_exc()})


if __name__ == "__main__":
    main()
    # Threads of the SDK that still wait for something must not keep the process.
    os._exit(0)

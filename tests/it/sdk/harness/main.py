"""Runs one scenario with the SDK that is on the path and prints what came of it as one line of JSON.

    main.py SCENARIO        with WINDLASS_URL, WINDLASS_KEY, WINDLASS_WORKSPACE in the environment

The last line is {"facts": …} or {"broken": …}; before it, a scenario may say {"at": …} and wait for a line of its
standard input. What the facts should be is not decided here."""

import os
import sys
import traceback

import watchdog


def main():
    watchdog.step()
    try:
        import scenarios
        from world import World

        watchdog.step({"facts": scenarios.ALL[sys.argv[1]](World.from_environment())})
    except BaseException:
        watchdog.step({"broken": traceback.format_exc()})


if __name__ == "__main__":
    main()
    # Threads of the SDK that still wait for something must not keep the process.
    os._exit(0)

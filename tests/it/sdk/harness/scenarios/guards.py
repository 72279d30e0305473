"""Guards that keep a run from going round in circles."""

import json

from mantyx import define_local_tool
from world import agent, log, payloads

LOOP = ("loop_detected", "consecutiveCount", "hardCutoff", "tools")
BUDGET = ("tool_budget_exceeded", "tool", "maxCalls", "callIndex")


def probing(world, model, **spec):
    calls = []
    probe = define_local_tool(name="probe", execute=lambda _: calls.append(1) or f"seen {len(calls)}")
    result = world.client().run_agent(**agent(model, tools=[probe], **spec), prompt="?")
    return result, len(calls)


def loop(world):
    result, calls = probing(world, "loops")
    return {"calls": calls, "loops": payloads(result.events, *LOOP), "text": result.text, **log(result.events)}


def loop_thresholds(world):
    result, calls = probing(world, "loops", loop_detection={"consecutiveThreshold": 2, "hardCutoffThreshold": 3})
    return {"calls": calls, "loops": payloads(result.events, *LOOP), "text": result.text}


def loop_off(world):
    """Only the ceiling on turns is left."""
    result, calls = probing(world, "loops", loop_detection=False, budgets={"maxToolTurns": 8})
    return {"calls": calls, "loops": payloads(result.events, *LOOP), "text": result.text}


def tool_budget(world):
    result, calls = probing(world, "probes", tool_budgets={"probe": {"maxCalls": 2}})
    *seen, refused = result.text.split("|")
    told = [*seen, json.loads(refused.removeprefix("ERROR: "))["kind"]]
    return {"calls": calls, "exceeded": payloads(result.events, *BUDGET), "told": told, **log(result.events)}


SCENARIOS = [loop, loop_thresholds, loop_off, tool_budget]

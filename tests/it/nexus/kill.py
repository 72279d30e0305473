"""Nexus operations of which some are in the middle when the engine is killed.

`before` leaves one request with a worker, one with none, one operation that runs, and one whose handler's run has just
ended. `after` finishes them all on the next engine and prints the caller's history."""

import asyncio
import base64
import json
import sys

from temporalio.api.workflowservice import v1 as service
from temporalio.client import Client
from world import World, run


async def before(w: World) -> dict:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(*(w.schedule(service=name) for name in ("held", "runs", "ends", "waits")))
    tasks = {}
    while len(tasks) < 3:
        task = await w.nexus_task()
        tasks[task.request.start_operation.service] = task
        if task.request.start_operation.service == "waits":
            return {"unexpected": "tasks are given in the order of the operations"}
    for name in ("runs", "ends"):
        await w.start(name, f"q-{name}", completion_callbacks=[w.callback_of(tasks[name])])
        await w.respond_async(tasks[name], token=name)
    await w.turn(w.complete("ended"), queue="q-ends")
    return {"unique": w.unique, "held": base64.b64encode(tasks["held"].task_token).decode()}


async def after(w: World, left: dict) -> None:
    held = service.PollNexusTaskQueueResponse(task_token=base64.b64decode(left["held"]))
    await w.respond_sync(held, "held")
    task = await w.nexus_task()
    while task.request.start_operation.service != "waits":
        task = await w.nexus_task()
    await w.respond_sync(task, "waited")
    await w.turn(w.complete("ran"), queue="q-runs")
    while (await w.describe("c")).pending_nexus_operations:
        await asyncio.sleep(0)
    await w.turn(w.complete())
    await w.history("c")


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    world = World(client, "kill")
    if sys.argv[2] == "before":
        print(json.dumps(await before(world)))
    else:
        left = json.loads(sys.argv[3])
        world.unique = left["unique"]
        world.callers, world.handlers = f"callers-{world.unique}", f"handlers-{world.unique}"
        await after(world, left)
        events = world.transcript[-1]["history of c"]
        print(json.dumps([[it["eventType"], it] for it in events if "NEXUS" in it["eventType"]]))


run(main())

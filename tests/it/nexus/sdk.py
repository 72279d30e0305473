"""A program of Temporal's Python SDK, unmodified: a caller and a service, with operations that succeed, fail, time out
and are cancelled. Prints the caller's results and the histories of caller and handlers."""

import asyncio
import json
import sys
import uuid
from datetime import timedelta

import nexusrpc
from google.protobuf.json_format import MessageToDict
from nexusrpc.handler import StartOperationContext, service_handler, sync_operation
from temporalio import nexus, workflow
from temporalio.api.nexus.v1 import EndpointSpec, EndpointTarget
from temporalio.api.operatorservice.v1 import CreateNexusEndpointRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError, CancelledError, NexusOperationError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from world import World, run


@nexusrpc.service
class Desk:
    greet: nexusrpc.Operation[str, str]
    refuse: nexusrpc.Operation[str, str]
    stumble: nexusrpc.Operation[str, str]
    work: nexusrpc.Operation[str, str]


@workflow.defn
class Work:
    @workflow.run
    async def run(self, what: str) -> str:
        if what == "fail":
            raise ApplicationError("it broke", type="Broken")
        if what == "forever":
            await workflow.wait_condition(lambda: False)
        await workflow.sleep(0.01)
        return f"done: {what}"


ATTEMPTS: dict[str, int] = {}


@service_handler(service=Desk)
class DeskHandler:
    @sync_operation
    async def greet(self, ctx: StartOperationContext, name: str) -> str:
        return f"Hello, {name}"

    @sync_operation
    async def refuse(self, ctx: StartOperationContext, name: str) -> str:
        if name == "operation":
            raise nexusrpc.OperationError("not today", state=nexusrpc.OperationErrorState.FAILED)
        raise nexusrpc.HandlerError("no such thing", type=nexusrpc.HandlerErrorType.BAD_REQUEST)

    @sync_operation
    async def stumble(self, ctx: StartOperationContext, name: str) -> str:
        ATTEMPTS[name] = ATTEMPTS.get(name, 0) + 1
        if ATTEMPTS[name] == 1:
            raise nexusrpc.HandlerError("not at the first attempt", type=nexusrpc.HandlerErrorType.INTERNAL)
        return f"attempt {ATTEMPTS[name]}"

    @nexus.workflow_run_operation
    async def work(self, ctx: nexus.WorkflowRunOperationContext, what: str) -> nexus.WorkflowHandle[str]:
        return await ctx.start_workflow(Work.run, what, id=f"{what}-{ctx.request_id}")


def told(error: BaseException | None) -> list:
    causes = []
    while error is not None:
        causes.append([type(error).__name__, str(error)])
        error = error.__cause__
    return causes


@workflow.defn
class Caller:
    @workflow.run
    async def run(self, endpoint: str) -> dict:
        client = workflow.create_nexus_client(service=Desk, endpoint=endpoint)
        results: dict = {"greet": await client.execute_operation(Desk.greet, "Ada")}
        for kind in ("operation", "handler"):
            try:
                await client.execute_operation(Desk.refuse, kind)
            except NexusOperationError as error:
                results[f"refuse {kind}"] = told(error)
        results["stumble"] = await client.execute_operation(Desk.stumble, "Ada")
        started = await client.start_operation(Desk.work, "now")
        results["work has a token"] = bool(started.operation_token)
        results["work"] = await started
        try:
            await client.execute_operation(Desk.work, "fail")
        except NexusOperationError as error:
            results["fail"] = told(error)
        try:
            await client.execute_operation(
                Desk.work, "forever", schedule_to_close_timeout=timedelta(seconds=3)
            )
        except NexusOperationError as error:
            results["too long"] = told(error)
        running = await client.start_operation(Desk.work, "forever")
        running.cancel()
        try:
            await running
        except NexusOperationError as error:
            results["cancelled"] = told(error)
        return results


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    world = World(client, "sdk")
    await world.create_endpoint()
    callers = Worker(client, task_queue=world.callers, workflows=[Caller])
    handlers = Worker(
        client, task_queue=world.handlers, workflows=[Work], nexus_service_handlers=[DeskHandler()]
    )
    async with callers, handlers:
        id = f"caller-{world.unique}"
        result = await client.execute_workflow(Caller.run, world.endpoint, id=id, task_queue=world.callers)
        world.note("result", result)
        history = await client.get_workflow_handle(id).fetch_history()
        events = [MessageToDict(event) for event in history.events]
        world.note("events", [dropped(event) for event in settled(events)])
    print(json.dumps(world.transcript, indent=1, sort_keys=True))


def settled(events: list) -> list:
    """The Nexus events that do not race: the reply to a cancellation comes before or after its effect, and an operation
    that times out has been started in time or not."""
    nexus_events = [event for event in events if "NEXUS" in event["eventType"]]
    late = {operation(event) for event in nexus_events if event["eventType"].endswith("TIMED_OUT")}
    return [
        event
        for event in nexus_events
        if not event["eventType"].endswith("CANCEL_REQUEST_COMPLETED")
        and not (event["eventType"].endswith("STARTED") and operation(event) in late)
    ]


def operation(event: dict) -> str:
    attributes = next(value for key, value in event.items() if key.endswith("Attributes"))
    return attributes.get("scheduledEventId", event["eventId"])


def dropped(value):
    """Without what depends on how many workflow tasks there were, and on tokens of handlers."""
    names = {
        "eventId",
        "scheduledEventId",
        "requestedEventId",
        "workflowTaskCompletedEventId",
        "operationId",
        "operationToken",
        "stackTrace",
        "requestId",
    }
    if isinstance(value, dict):
        return {key: dropped(it) for key, it in value.items() if key not in names}
    if isinstance(value, list):
        return [dropped(it) for it in value]
    return value


if __name__ == "__main__":
    run(main())

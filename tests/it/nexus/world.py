"""What the protocol cases share: requests as a worker and a client make them, and a transcript without what differs
from server to server (times, ids, opaque tokens)."""

import asyncio
import json
import os
import re
import sys
import uuid
from datetime import timedelta

from google.protobuf.json_format import MessageToDict
from temporalio.api.command.v1 import Command
from temporalio.api.common.v1 import Callback, Payload, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import CommandType, EventType, HistoryEventFilterType
from temporalio.api.nexus import v1 as nexus
from temporalio.api.operatorservice import v1 as operator
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice import v1 as service
from temporalio.service import RPCError

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# Values that differ from run to run. A key that is present stays, so that what is set is compared.
OPAQUE = {
    "eventTime",
    "taskId",
    "taskToken",
    "scheduledTime",
    "startTime",
    "executionTime",
    "closeTime",
    "executionDuration",
    "originalScheduledTime",
    "originalStartTime",
    "lastAttemptCompleteTime",
    "nextAttemptScheduleTime",
    "requestedTime",
    "registrationTime",
    "createdTime",
    "createTime",
    "expireTime",
    "lastModifiedTime",
    "startedTime",
    "lastResetTime",
    "workflowExecutionExpirationTime",
    "runExpirationTime",
    "executionExpirationTime",
    "historySizeBytes",
    "stateTransitionCount",
    "temporal-callback-token",
    "Temporal-Callback-Token",
    "request-timeout",
    "Request-Timeout",
    "operation-timeout",
}


def payload(value) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(value).encode())


def payloads(value) -> Payloads:
    return Payloads(payloads=[payload(value)])


class World:
    def __init__(self, client, case: str) -> None:
        self.client, self.case = client, case
        self.wf, self.op = client.workflow_service, client.operator_service
        self.unique = uuid.uuid4().hex
        self.namespace = "default"
        self.callers, self.handlers = f"callers-{self.unique}", f"handlers-{self.unique}"
        self.endpoint = f"endpoint-{self.unique}"
        self.names: dict[str, str] = {}
        self.transcript: list = []

    # Transcript.

    def plain(self, value, key: str = ""):
        if key in OPAQUE:
            return "*"
        if isinstance(value, dict):
            # In one order, because the names of ids depend on it.
            return {self.plain(k): self.plain(value[k], k) for k in sorted(value) if k not in DROPPED}
        if isinstance(value, list):
            return [self.plain(v, key) for v in value]
        if isinstance(value, str):
            value = value.replace(self.unique, "U")
            return UUID.sub(lambda it: self.names.setdefault(it.group(), f"<id {len(self.names) + 1}>"), value)
        return value

    def note(self, what: str, value) -> None:
        self.transcript.append({what: self.plain(value)})

    def note_message(self, what: str, message) -> None:
        self.note(what, MessageToDict(message))

    async def ask(self, what: str, call):
        """Notes the reply or the error."""
        try:
            reply = await call
        except RPCError as error:
            self.note(what, {"error": f"{error.status.name}: {error.message}"})
            return None
        self.note_message(what, reply)
        return reply

    # Endpoints.

    async def create_endpoint(self, **changes) -> nexus.Endpoint:
        reply = await self.op.create_nexus_endpoint(
            operator.CreateNexusEndpointRequest(spec=self.spec(self.endpoint, **changes))
        )
        return reply.endpoint

    def spec(self, name: str, namespace: str = "default", queue: str | None = None) -> nexus.EndpointSpec:
        worker = nexus.EndpointTarget.Worker(namespace=namespace, task_queue=queue or self.handlers)
        return nexus.EndpointSpec(name=name, target=nexus.EndpointTarget(worker=worker))

    # Runs.

    async def start(self, id: str, queue: str | None = None, **more) -> service.StartWorkflowExecutionResponse:
        more.setdefault("request_id", str(uuid.uuid4()))
        return await self.wf.start_workflow_execution(
            service.StartWorkflowExecutionRequest(
                namespace=self.namespace,
                workflow_id=f"{id}-{self.unique}",
                workflow_type=WorkflowType(name="w"),
                task_queue=TaskQueue(name=queue or self.callers),
                identity="client",
                **more,
            )
        )

    def execution(self, id: str, run_id: str = "") -> WorkflowExecution:
        return WorkflowExecution(workflow_id=f"{id}-{self.unique}", run_id=run_id)

    async def workflow_task(self, queue: str | None = None) -> service.PollWorkflowTaskQueueResponse:
        while True:
            task = await self.wf.poll_workflow_task_queue(
                service.PollWorkflowTaskQueueRequest(
                    namespace=self.namespace, task_queue=TaskQueue(name=queue or self.callers), identity="worker"
                ),
                timeout=timedelta(seconds=30),
            )
            if task.task_token:
                return task

    async def decide(self, task, *commands: Command, **more):
        return await self.wf.respond_workflow_task_completed(
            service.RespondWorkflowTaskCompletedRequest(
                namespace=self.namespace, task_token=task.task_token, identity="worker", commands=commands, **more
            )
        )

    async def turn(self, *commands: Command, queue: str | None = None):
        """The next workflow task, completed with these commands."""
        task = await self.workflow_task(queue)
        await self.decide(task, *commands)
        return task

    def schedule(self, **more) -> Command:
        command = Command(command_type=CommandType.COMMAND_TYPE_SCHEDULE_NEXUS_OPERATION)
        attributes = command.schedule_nexus_operation_command_attributes
        attributes.endpoint, attributes.service, attributes.operation = self.endpoint, "desk", "greet"
        attributes.input.CopyFrom(payload("Ada"))
        for key, value in more.items():
            if isinstance(value, timedelta):
                getattr(attributes, key).FromTimedelta(value)
            elif isinstance(value, dict):
                getattr(attributes, key).update(value)
            else:
                setattr(attributes, key, value)
        return command

    def cancel(self, scheduled: int) -> Command:
        command = Command(command_type=CommandType.COMMAND_TYPE_REQUEST_CANCEL_NEXUS_OPERATION)
        command.request_cancel_nexus_operation_command_attributes.scheduled_event_id = scheduled
        return command

    def complete(self, result="done") -> Command:
        command = Command(command_type=CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION)
        command.complete_workflow_execution_command_attributes.result.CopyFrom(payloads(result))
        return command

    # Nexus tasks.

    async def nexus_task(self, queue: str | None = None, quiet: bool = False) -> service.PollNexusTaskQueueResponse:
        while True:
            task = await self.wf.poll_nexus_task_queue(
                service.PollNexusTaskQueueRequest(
                    namespace=self.namespace, task_queue=TaskQueue(name=queue or self.handlers), identity="handler"
                ),
                timeout=timedelta(seconds=30),
            )
            if task.task_token:
                if not quiet:
                    self.note_message("nexus task", task.request)
                return task

    async def respond(self, task, **response):
        return await self.wf.respond_nexus_task_completed(
            service.RespondNexusTaskCompletedRequest(
                namespace=self.namespace,
                identity="handler",
                task_token=task.task_token,
                response=nexus.Response(**response),
            )
        )

    async def respond_sync(self, task, value="Hello", links=()):
        success = nexus.StartOperationResponse.Sync(payload=payload(value), links=links)
        return await self.respond(task, start_operation=nexus.StartOperationResponse(sync_success=success))

    async def respond_async(self, task, token="token", links=()):
        success = nexus.StartOperationResponse.Async(operation_token=token, links=links)
        return await self.respond(task, start_operation=nexus.StartOperationResponse(async_success=success))

    async def respond_failed(self, task, **failure):
        return await self.wf.respond_nexus_task_failed(
            service.RespondNexusTaskFailedRequest(
                namespace=self.namespace, identity="handler", task_token=task.task_token, **failure
            )
        )

    def callback_of(self, task) -> Callback:
        start = task.request.start_operation
        return Callback(nexus=Callback.Nexus(url=start.callback, header=start.callback_header))

    # Reading.

    async def history(self, id: str, run_id: str = "") -> None:
        reply = await self.wf.get_workflow_execution_history(
            service.GetWorkflowExecutionHistoryRequest(
                namespace=self.namespace, execution=self.execution(id, run_id)
            )
        )
        events = MessageToDict(reply.history)["events"]
        self.note(f"history of {id}", [without_noise(event) for event in events])

    async def closed(self, id: str, run_id: str = "") -> None:
        """Waits for the end of the run."""
        await self.wf.get_workflow_execution_history(
            service.GetWorkflowExecutionHistoryRequest(
                namespace=self.namespace,
                execution=self.execution(id, run_id),
                wait_new_event=True,
                history_event_filter_type=HistoryEventFilterType.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
            ),
            timeout=timedelta(seconds=30),
        )

    async def describe(self, id: str):
        return await self.wf.describe_workflow_execution(
            service.DescribeWorkflowExecutionRequest(namespace=self.namespace, execution=self.execution(id))
        )

    async def described(self, id: str, until=lambda reply: True) -> None:
        """Notes what a description says of Nexus, once it is as wanted: the server changes it after its reply."""
        reply = await self.describe(id)
        while not until(reply):
            reply = await self.describe(id)
        said = MessageToDict(reply)
        shown = {key: said[key] for key in ("pendingNexusOperations", "callbacks") if key in said}
        # The real server keeps them in no order.
        shown.get("pendingNexusOperations", []).sort(key=lambda it: int(it["scheduledEventId"]))
        shown.get("callbacks", []).sort(key=lambda it: json.dumps(self.plain(it)))
        infos = said["workflowExtendedInfo"].get("requestIdInfos", {})
        shown["requests"] = sorted(json.dumps(info, sort_keys=True) for info in infos.values())
        self.note(f"description of {id}", shown)


DROPPED = {"taskId", "version"}


def without_noise(event: dict) -> dict:
    """An event without what belongs to the workflow task's worker."""
    return {key: value for key, value in event.items() if key not in ("taskId", "version")}


def run(main) -> None:
    """Runs a program. Its end must not wait for polls of the SDK, nor fail because of them."""
    asyncio.run(main)
    sys.stdout.flush()
    os._exit(0)

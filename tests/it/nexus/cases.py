"""Nexus by hand, request by request. Run with the address of a server: prints the transcript of each case as JSON."""

import asyncio
import json
import sys
import uuid
from datetime import timedelta

from temporalio.api.command.v1 import Command
from temporalio.api.common.v1 import Callback, Link, WorkflowExecution
from temporalio.api.enums.v1 import (
    CommandType,
    EventType,
    NexusHandlerErrorRetryBehavior,
    PendingNexusOperationState,
    WorkflowIdConflictPolicy,
)
from temporalio.api.failure.v1 import (
    ApplicationFailureInfo,
    CanceledFailureInfo,
    Failure,
    NexusHandlerFailureInfo,
)
from temporalio.api.nexus import v1 as nexus
from temporalio.api.operatorservice import v1 as operator
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import OnConflictOptions
from temporalio.api.workflowservice import v1 as service
from temporalio.client import Client
from world import World, payload, payloads, run

CASES = []


def case(function):
    CASES.append(function)
    return function


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def handler_failure(kind: str, retry: int = 0, message: str = "no") -> Failure:
    cause = Failure(message="why", application_failure_info=ApplicationFailureInfo(type="Reason"))
    info = NexusHandlerFailureInfo(type=kind, retry_behavior=retry)
    return Failure(message=message, nexus_handler_failure_info=info, cause=cause)


@case
async def endpoints(w: World) -> None:
    op = w.op
    created = await w.ask(
        "created", op.create_nexus_endpoint(operator.CreateNexusEndpointRequest(spec=w.spec(w.endpoint)))
    )
    again = operator.CreateNexusEndpointRequest(spec=w.spec(w.endpoint, queue="q"))
    await w.ask("created again", op.create_nexus_endpoint(again))
    id = created.endpoint.id
    get = operator.GetNexusEndpointRequest(id=id)
    await w.ask("got", op.get_nexus_endpoint(get))
    change = operator.UpdateNexusEndpointRequest(id=id, version=1, spec=w.spec(w.endpoint, queue="other"))
    await w.ask("changed", op.update_nexus_endpoint(change))
    await w.ask("changed from an old version", op.update_nexus_endpoint(change))
    change.id = str(uuid.uuid4())
    await w.ask("changed another", op.update_nexus_endpoint(change))
    await w.ask("got", op.get_nexus_endpoint(get))
    await w.ask("listed", op.list_nexus_endpoints(operator.ListNexusEndpointsRequest(name=w.endpoint)))
    await w.ask("listed none", op.list_nexus_endpoints(operator.ListNexusEndpointsRequest(name="none")))
    for size in (-1, 1001):
        await w.ask("listed", op.list_nexus_endpoints(operator.ListNexusEndpointsRequest(page_size=size)))
    external = nexus.EndpointTarget.External(url="https://example.com/nexus")
    spec = nexus.EndpointSpec(name=f"x{w.unique}", target=nexus.EndpointTarget(external=external))
    spec.description.CopyFrom(payload("where"))
    outside = await w.ask("external", op.create_nexus_endpoint(operator.CreateNexusEndpointRequest(spec=spec)))
    for version in (0, 7):
        gone = operator.DeleteNexusEndpointRequest(id=outside.endpoint.id, version=version)
        await w.ask("deleted", op.delete_nexus_endpoint(gone))
    await w.ask("deleted again", op.delete_nexus_endpoint(gone))
    await w.ask("got", op.get_nexus_endpoint(operator.GetNexusEndpointRequest(id=outside.endpoint.id)))
    for id in ("", "x"):
        await w.ask("got", op.get_nexus_endpoint(operator.GetNexusEndpointRequest(id=id)))
        await w.ask("deleted", op.delete_nexus_endpoint(operator.DeleteNexusEndpointRequest(id=id)))
    await w.ask("changed", op.update_nexus_endpoint(operator.UpdateNexusEndpointRequest(spec=w.spec("ab"))))
    urls = ["", "ftp://example.com", "example.com", "http://" + "a" * 4090]
    targets = [nexus.EndpointTarget(external=nexus.EndpointTarget.External(url=url)) for url in urls]
    named = ["", "1a", "a-", "a_b", "a" * 201]
    bad = [nexus.EndpointSpec(name="ab", target=target) for target in [*targets, nexus.EndpointTarget()]]
    bad += [w.spec(name) for name in named] + [w.spec("ab", namespace="nowhere"), w.spec("ab", namespace="")]
    bad += [w.spec("ab", queue="/_sys/x"), w.spec("ab", queue="q" * 1001), nexus.EndpointSpec()]
    for spec in bad:
        await w.ask("refused", op.create_nexus_endpoint(operator.CreateNexusEndpointRequest(spec=spec)))


@case
async def synchronous(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule(nexus_header={"Foo": "bar"}))
    task = await w.nexus_task()
    await w.described("c")
    await w.respond_sync(task, links=task.request.start_operation.links)
    await w.ask("answered again", w.respond_sync(task))
    await w.turn(w.complete())
    await w.history("c")
    await w.described("c")


@case
async def asynchronous(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    task = await w.nexus_task()
    w.note_message("handler", await w.start("h", w.handlers, completion_callbacks=[w.callback_of(task)]))
    await w.respond_async(task, links=task.request.start_operation.links)
    await w.turn()
    await w.described("c")
    await w.described("h")
    await w.turn(w.complete("hi"), queue=w.handlers)
    await w.turn(w.complete())
    await w.history("c")
    await w.history("h")
    await w.described("h", lambda reply: reply.callbacks[0].state == 5)


@case
async def failed_operations(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    cancelled = Failure(message="stopped", canceled_failure_info=CanceledFailureInfo())
    cause = Failure(message="cause", source="here", application_failure_info=ApplicationFailureInfo(type="C"))
    info = ApplicationFailureInfo(type="T", non_retryable=True, details=payloads(1))
    failed = Failure(
        message="broken", source="there", stack_trace="line", application_failure_info=info, cause=cause
    )
    older = nexus.Failure(message="older")
    typed = nexus.Failure(message="typed", metadata={"a": "b"}, details=b'{"x": 1}')
    variants = [
        nexus.StartOperationResponse(failure=failed),
        nexus.StartOperationResponse(failure=cancelled),
        nexus.StartOperationResponse(
            operation_error=nexus.UnsuccessfulOperationError(operation_state="failed", failure=older)
        ),
        nexus.StartOperationResponse(
            operation_error=nexus.UnsuccessfulOperationError(operation_state="failed", failure=typed)
        ),
        nexus.StartOperationResponse(
            operation_error=nexus.UnsuccessfulOperationError(operation_state="canceled", failure=older)
        ),
    ]
    for variant in variants:
        await w.turn(w.schedule())
        await w.respond(await w.nexus_task(), start_operation=variant)
    await w.turn(w.complete())
    await w.history("c")


@case
async def handler_errors(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    never = NexusHandlerErrorRetryBehavior.NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_NON_RETRYABLE
    for kind in ("BAD_REQUEST", "UNAUTHENTICATED", "UNAUTHORIZED", "NOT_FOUND", "NOT_IMPLEMENTED"):
        await w.turn(w.schedule())
        await w.respond_failed(await w.nexus_task(), failure=handler_failure(kind))
    await w.turn(w.schedule())
    await w.respond_failed(await w.nexus_task(), failure=handler_failure("INTERNAL", never))
    await w.turn(w.schedule())
    older = nexus.HandlerError(error_type="BAD_REQUEST", failure=nexus.Failure(message="older"))
    await w.respond_failed(await w.nexus_task(), error=older)
    await w.turn(w.schedule())
    await w.respond_failed(await w.nexus_task(), error=nexus.HandlerError(error_type="NOT_FOUND"))
    await w.turn(w.complete())
    await w.history("c")


@case
async def retries(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    first = await w.nexus_task()
    await w.respond_failed(first, failure=handler_failure("INTERNAL"))
    backing_off = PendingNexusOperationState.PENDING_NEXUS_OPERATION_STATE_BACKING_OFF
    await w.described("c", lambda reply: reply.pending_nexus_operations[0].state == backing_off)
    again = await w.nexus_task()
    assert again.request.start_operation.request_id == first.request.start_operation.request_id
    await w.described("c")
    await w.ask("answered twice", w.respond_sync(first))
    await w.respond(again)
    await w.respond_sync(await w.nexus_task())
    await w.turn(w.complete())
    await w.history("c")


@case
async def forced_retries(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    always = NexusHandlerErrorRetryBehavior.NEXUS_HANDLER_ERROR_RETRY_BEHAVIOR_RETRYABLE
    for kind in ("BAD_REQUEST", "SOMETHING"):
        await w.turn(w.schedule())
        await w.respond_failed(await w.nexus_task(), failure=handler_failure(kind, always))
        await w.respond_sync(await w.nexus_task())
    await w.turn(w.complete())
    await w.history("c")


@case
async def timeouts(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    # There is too little time for a request.
    await w.turn(w.schedule(schedule_to_close_timeout=seconds(1)))
    await w.turn(w.schedule(schedule_to_start_timeout=seconds(1)))
    await w.turn(w.schedule(schedule_to_close_timeout=seconds(30), start_to_close_timeout=seconds(60)))
    task = await w.nexus_task()
    await w.described("c")
    await w.respond_async(task)
    await w.turn(w.complete())
    await w.history("c")


@case
async def starts_in_time(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule(start_to_close_timeout=seconds(1)))
    await w.respond_async(await w.nexus_task())
    await w.turn()
    await w.turn(w.complete())
    await w.history("c")


@case
async def no_worker(w: World) -> None:
    """The request's own time is up before that of the operation."""
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule(schedule_to_close_timeout=seconds(2)))
    backing_off = PendingNexusOperationState.PENDING_NEXUS_OPERATION_STATE_BACKING_OFF
    await w.described("c", lambda reply: reply.pending_nexus_operations[0].state == backing_off)
    await w.turn(w.complete())
    await w.history("c")


@case
async def deleted_endpoint(w: World) -> None:
    endpoint = await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    task = await w.nexus_task()
    await w.op.delete_nexus_endpoint(operator.DeleteNexusEndpointRequest(id=endpoint.id, version=1))
    await w.respond_failed(task, failure=handler_failure("INTERNAL"))
    await w.turn(w.complete())
    await w.history("c")


@case
async def limited_by_the_run(w: World) -> None:
    await w.create_endpoint()
    await w.start("c", workflow_run_timeout=seconds(40))
    await w.turn(
        w.schedule(),
        w.schedule(schedule_to_close_timeout=seconds(50), schedule_to_start_timeout=seconds(45)),
        w.schedule(schedule_to_close_timeout=seconds(20), start_to_close_timeout=seconds(25)),
    )
    await w.described("c")
    await w.history("c")


@case
async def cancellation(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule(nexus_header={"a": "b"}))
    start = await w.nexus_task()
    handler = await w.start("h", w.handlers, completion_callbacks=[w.callback_of(start)])
    await w.respond_async(start)
    await w.turn(w.cancel(5))
    cancel = await w.nexus_task()
    await w.described("c")
    await w.respond(cancel, cancel_operation=nexus.CancelOperationResponse())
    await w.turn()
    await w.described("c")
    await w.wf.request_cancel_workflow_execution(
        service.RequestCancelWorkflowExecutionRequest(namespace=w.namespace, workflow_execution=w.execution("h"))
    )
    command = Command(command_type=CommandType.COMMAND_TYPE_CANCEL_WORKFLOW_EXECUTION)
    command.cancel_workflow_execution_command_attributes.details.CopyFrom(payloads("so be it"))
    await w.turn(command, queue=w.handlers)
    await w.turn(w.complete())
    await w.history("c")


@case
async def cancellation_before_the_start(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    task = await w.workflow_task()
    await w.decide(task, w.schedule(), w.cancel(5))
    start = await w.nexus_task()
    await w.described("c")
    await w.respond_async(start)
    cancel = await w.nexus_task()
    await w.respond_failed(cancel, failure=handler_failure("INTERNAL"))
    await w.described("c", lambda reply: reply.pending_nexus_operations[0].cancellation_info.attempt == 1)
    without_cause = Failure(message="gone", nexus_handler_failure_info=NexusHandlerFailureInfo(type="NOT_FOUND"))
    await w.respond_failed(await w.nexus_task(), failure=without_cause)
    await w.described(
        "c", lambda reply: reply.pending_nexus_operations[0].cancellation_info.attempt == 2
    )
    await w.turn(w.complete())
    await w.history("c")


@case
async def bad_commands(w: World) -> None:
    await w.create_endpoint()
    missing = w.schedule()
    missing.schedule_nexus_operation_command_attributes.endpoint = "none"
    negative = w.schedule(schedule_to_close_timeout=seconds(-1))
    twice = [w.schedule(), w.cancel(5), w.cancel(5)]
    bad = [
        [missing],
        [w.schedule(service="s" * 1001)],
        [w.schedule(operation="o" * 1001)],
        [negative],
        [w.schedule(nexus_header={"Request-Timeout": "1s"})],
        [w.schedule(nexus_header={"a": "b" * 8192})],
        [w.cancel(77)],
        twice,
        [w.schedule() for _ in range(31)],
        [Command(command_type=CommandType.COMMAND_TYPE_SCHEDULE_NEXUS_OPERATION)],
        [Command(command_type=CommandType.COMMAND_TYPE_REQUEST_CANCEL_NEXUS_OPERATION)],
    ]
    for index, commands in enumerate(bad):
        await w.start(f"c{index}")
        task = await w.workflow_task()
        await w.ask("decided", w.decide(task, *commands))
        await w.history(f"c{index}")
        await w.wf.terminate_workflow_execution(
            service.TerminateWorkflowExecutionRequest(
                namespace=w.namespace, workflow_execution=w.execution(f"c{index}")
            )
        )


@case
async def bad_answers(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    task = await w.nexus_task()
    empty = nexus.StartOperationResponse(async_success=nexus.StartOperationResponse.Async())
    await w.ask("no token", w.respond(task, start_operation=empty))
    await w.ask("long token", w.respond_async(task, token="t" * 4097))
    bad = nexus.UnsuccessfulOperationError(failure=nexus.Failure(details=b"{"))
    await w.ask("not JSON", w.respond(task, start_operation=nexus.StartOperationResponse(operation_error=bad)))
    await w.ask("no failure", w.respond_failed(task))
    await w.ask("another failure", w.respond_failed(task, failure=Failure(message="x")))
    await w.ask("not JSON", w.respond_failed(task, error=nexus.HandlerError(failure=nexus.Failure(details=b"{"))))
    task.task_token = b"?"
    await w.ask("garbled", w.respond_sync(task))
    task.task_token = b""
    await w.ask("none", w.respond_failed(task, failure=handler_failure("INTERNAL")))


@case
async def buffered(w: World) -> None:
    """Events that come while a workflow task is with its worker."""
    await w.create_endpoint()
    await w.start("c")
    task = await w.workflow_task()
    await w.decide(task, w.schedule(), w.schedule(), force_create_new_workflow_task=True)
    held = await w.workflow_task()
    for _ in range(2):
        # In any order.
        start = await w.nexus_task(quiet=True)
        if "eventID=5&" in start.request.start_operation.links[0].url:
            await w.respond_sync(start)
        else:
            await w.respond_async(start)
    started = PendingNexusOperationState.PENDING_NEXUS_OPERATION_STATE_STARTED
    await w.described(
        "c",
        lambda reply: [it.state for it in reply.pending_nexus_operations] == [started],
    )
    await w.wf.signal_workflow_execution(
        service.SignalWorkflowExecutionRequest(
            namespace=w.namespace, workflow_execution=w.execution("c"), signal_name="s", request_id="s"
        )
    )
    # The first has ended, of which this worker cannot know.
    await w.decide(held, w.cancel(5))
    await w.turn(w.complete())
    await w.history("c")


@case
async def end_before_the_answer(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    start = await w.nexus_task()
    await w.start("h", w.handlers, completion_callbacks=[w.callback_of(start)])
    await w.turn(w.complete("early"), queue=w.handlers)
    await w.turn()
    await w.ask("answered late", w.respond_async(start))
    await w.history("c")


@case
async def ends_of_handlers(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    fail = Command(command_type=CommandType.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION)
    info = ApplicationFailureInfo(type="T")
    cause = Failure(message="cause", source="x")
    fail.fail_workflow_execution_command_attributes.failure.CopyFrom(
        Failure(message="broken", source="there", application_failure_info=info, cause=cause)
    )
    nothing = Command(command_type=CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION)
    nothing.complete_workflow_execution_command_attributes.SetInParent()

    async def terminate() -> None:
        await w.wf.terminate_workflow_execution(
            service.TerminateWorkflowExecutionRequest(
                namespace=w.namespace, workflow_execution=w.execution("h2"), reason="enough"
            )
        )

    async def wait() -> None:
        await w.closed("h3")

    async def end(*commands: Command) -> None:
        await w.turn(*commands, queue=w.handlers)

    ends = [lambda: end(fail), lambda: end(nothing), terminate, wait]
    for index, finish in enumerate(ends):
        await w.turn(w.schedule())
        start = await w.nexus_task()
        timeout = seconds(1) if finish is wait else None
        await w.start(
            f"h{index}", w.handlers, completion_callbacks=[w.callback_of(start)], workflow_run_timeout=timeout
        )
        await w.respond_async(start, token=f"t{index}")
        await w.turn()
        await finish()
    await w.turn(w.complete())
    await w.history("c")


@case
async def chains(w: World) -> None:
    """The end of the chain counts: after continue-as-new, and after a retry."""
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    start = await w.nexus_task()
    w.note("callback of the request", start.request.start_operation.callback)
    first = await w.start(
        "h", w.handlers, completion_callbacks=[w.callback_of(start)], retry_policy={"maximum_attempts": 2}
    )
    await w.respond_async(start)
    await w.turn()
    again = Command(command_type=CommandType.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION)
    attributes = again.continue_as_new_workflow_execution_command_attributes
    attributes.workflow_type.name, attributes.task_queue.name = "w", w.handlers
    attributes.retry_policy.maximum_attempts = 2
    await w.turn(again, queue=w.handlers)
    fail = Command(command_type=CommandType.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION)
    fail.fail_workflow_execution_command_attributes.failure.message = "once"
    await w.turn(fail, queue=w.handlers)
    await w.turn(w.complete("at last"), queue=w.handlers)
    await w.turn(w.complete())
    await w.history("c")
    await w.history("h", first.run_id)
    await w.history("h")
    await w.described("h", lambda reply: reply.callbacks[0].state == 5)


@case
async def attached(w: World) -> None:
    """Two operations wait for the same run."""
    await w.create_endpoint()
    caller = await w.start("c")
    options = OnConflictOptions(attach_request_id=True, attach_completion_callbacks=True, attach_links=True)
    use = WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
    link = Link()
    link.workflow_event.namespace, link.workflow_event.workflow_id = "default", f"c-{w.unique}"
    link.workflow_event.run_id = caller.run_id
    link.workflow_event.event_ref.event_id = 5
    link.workflow_event.event_ref.event_type = EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED
    for _ in range(2):
        await w.turn(w.schedule())
        task = await w.nexus_task()
        more = {
            "completion_callbacks": [w.callback_of(task)],
            "on_conflict_options": options,
            "workflow_id_conflict_policy": use,
            "links": [link],
            "request_id": task.request.start_operation.request_id,
        }
        w.note_message("handler", await w.start("h", w.handlers, **more))
        w.note_message("handler again", await w.start("h", w.handlers, **more))
        await w.respond_async(task)
    await w.described("h")
    await w.turn()
    await w.turn(w.complete("both"), queue=w.handlers)
    await w.closed("h")
    await w.described("h", lambda reply: all(it.state == 5 for it in reply.callbacks))
    await w.turn(w.complete())
    await w.history("h")


@case
async def refused_callbacks(w: World) -> None:
    for url in ("http://example.com", "ftp://example.com", "temporal://system/x", "http://", "http://" + "a" * 1000):
        callback = Callback(nexus=Callback.Nexus(url=url))
        await w.ask("started", w.start("h", completion_callbacks=[callback]))
    await w.ask("started", w.start("h", completion_callbacks=[Callback()]))
    large = Callback(nexus=Callback.Nexus(url="temporal://system", header={"a": "b" * 10000}))
    await w.ask("started", w.start("h", completion_callbacks=[large]))
    options = OnConflictOptions(attach_completion_callbacks=True)
    await w.ask("started", w.start("h", on_conflict_options=options))


@case
async def standalone_operations(w: World) -> None:
    start = service.StartNexusOperationExecutionRequest(namespace=w.namespace)
    await w.ask("started", w.wf.start_nexus_operation_execution(start))
    everything = service.ListNexusOperationExecutionsRequest(namespace=w.namespace)
    await w.ask("listed", w.wf.list_nexus_operation_executions(everything))


@case
async def refused_links(w: World) -> None:
    empty, event, job = Link(), Link(), Link()
    event.workflow_event.namespace, event.workflow_event.workflow_id = "default", "w"
    job.batch_job.SetInParent()
    whole = Link()
    whole.workflow_event.CopyFrom(event.workflow_event)
    whole.workflow_event.run_id = str(uuid.uuid4())
    large = Link()
    large.workflow_event.CopyFrom(whole.workflow_event)
    large.workflow_event.workflow_id = "w" * 4000
    for links in ([empty], [event], [job], [large], [whole] * 11):
        await w.ask("started", w.start("h", links=links))
    callback = Callback(nexus=Callback.Nexus(url="temporal://system"), links=[whole])
    await w.start("h", links=[whole, whole], completion_callbacks=[callback])
    await w.start("i", links=[whole])
    await w.history("h")
    await w.history("i")
    await w.described("h")


@case
async def lost_callbacks(w: World) -> None:
    """The caller has closed, or there is no such operation."""
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    start = await w.nexus_task()
    garbled = Callback(nexus=Callback.Nexus(url="temporal://system", header={"Temporal-Callback-Token": "?"}))
    none = Callback(nexus=Callback.Nexus(url="temporal://system"))
    await w.start("h", w.handlers, completion_callbacks=[w.callback_of(start), garbled, none])
    await w.respond_async(start)
    await w.turn(w.complete())
    await w.turn(w.complete(), queue=w.handlers)
    await w.described("h", lambda reply: all(it.state in (4, 5) for it in reply.callbacks))


@case
async def reset_of_the_caller(w: World) -> None:
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    start = await w.nexus_task()
    await w.start("h", w.handlers, completion_callbacks=[w.callback_of(start)])
    await w.respond_async(start)
    await w.turn()
    await w.wf.reset_workflow_execution(
        service.ResetWorkflowExecutionRequest(
            namespace=w.namespace,
            workflow_execution=w.execution("c"),
            workflow_task_finish_event_id=9,
            request_id="reset",
            reason="again",
        )
    )
    await w.turn()
    await w.described("c")
    await w.turn(w.complete(), queue=w.handlers)
    await w.turn(w.complete())
    await w.history("c")


@case
async def reset_to_the_start(w: World) -> None:
    """The operation is not known at the point of the reset, so its end is lost."""
    await w.create_endpoint()
    await w.start("c")
    await w.turn(w.schedule())
    await w.respond_sync(await w.nexus_task())
    await w.turn()
    for _ in range(2):
        await w.wf.reset_workflow_execution(
            service.ResetWorkflowExecutionRequest(
                namespace=w.namespace,
                workflow_execution=w.execution("c"),
                workflow_task_finish_event_id=4,
                request_id=str(uuid.uuid4()),
                reason="again",
            )
        )
        await w.turn()
    await w.history("c")


async def main() -> None:
    client = await Client.connect(sys.argv[1])
    wanted = sys.argv[2:]
    transcripts = {}
    # A request to a handler has nine seconds, which a machine that does everything at once might not keep.
    some = asyncio.Semaphore(5)

    async def play(function) -> None:
        async with some:
            for _ in range(3):
                world = World(client, function.__name__)
                transcripts[function.__name__] = world.transcript
                try:
                    return await asyncio.wait_for(function(world), 60)
                except Exception as error:
                    # A request has expired because the machine was busy, or it is a failure that comes again.
                    world.note("failed", f"{type(error).__name__}: {error}")

    await asyncio.gather(*(play(it) for it in CASES if not wanted or it.__name__ in wanted))
    print(json.dumps(transcripts, indent=1, sort_keys=True))


run(main())

"""Activities that are paused, reset and changed while a worker of Temporal's Python SDK has them. Prints what it saw."""

import asyncio
import json
import sys
from datetime import timedelta

import temporalio.api.workflowservice.v1 as service
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio import activity, workflow
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

seen = []


@activity.defn
async def work() -> str:
    info = activity.info()
    details = list(info.heartbeat_details)
    if len(seen) >= 2:
        return f"attempt {info.attempt}, heartbeat {details}"
    try:
        while True:
            activity.heartbeat(f"attempt {info.attempt}")
            await asyncio.sleep(0.05)
    except asyncio.CancelledError:
        why = activity.cancellation_details()
        seen.append({"attempt": info.attempt, "paused": why.paused, "reset": why.reset})
        raise ApplicationError("interrupted")


@workflow.defn
class Operated:
    @workflow.run
    async def run(self) -> str:
        return await workflow.execute_activity(
            work,
            activity_id="work",
            start_to_close_timeout=timedelta(seconds=60),
            heartbeat_timeout=timedelta(milliseconds=500),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=10), backoff_coefficient=1),
        )


async def main(address: str, queue: str) -> None:
    client = await Client.connect(address)
    async with Worker(client, task_queue=queue, workflows=[Operated], activities=[work]):
        handle = await client.start_workflow(Operated.run, id=queue, task_queue=queue)
        target = {
            "namespace": client.namespace,
            "execution": {"workflow_id": queue},
            "identity": "operator",
            "id": "work",
        }

        async def pending(state: str):
            while True:
                found = (await handle.describe()).raw_description.pending_activities
                if found and found[0].state == PendingActivityState.Value(f"PENDING_ACTIVITY_STATE_{state}"):
                    return found[0]
                await asyncio.sleep(0.02)

        await pending("STARTED")
        await client.workflow_service.pause_activity(service.PauseActivityRequest(reason="maintenance", **target))
        paused = await pending("PAUSED")
        by = paused.pause_info.manual
        shown = [paused.attempt, paused.paused, by.identity, by.reason, paused.last_failure.message]
        described = (await handle.describe()).raw_description.workflow_execution_info
        attribute = described.search_attributes.indexed_fields["TemporalPauseInfo"].data.decode()
        changed = await client.workflow_service.update_activity_options(
            service.UpdateActivityOptionsRequest(
                activity_options=ActivityOptions(retry_policy={"maximum_attempts": 9}),
                update_mask=FieldMask(paths=["retry_policy.maximum_attempts"]),
                **target,
            )
        )
        await client.workflow_service.unpause_activity(service.UnpauseActivityRequest(reset_attempts=True, **target))
        await pending("STARTED")
        await client.workflow_service.reset_activity(service.ResetActivityRequest(reset_heartbeat=True, **target))
        result = await handle.result()
        print(
            json.dumps(
                {
                    "interruptions": seen,
                    "paused": shown,
                    "attribute": attribute,
                    "attempts": changed.activity_options.retry_policy.maximum_attempts,
                    "result": result,
                }
            )
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

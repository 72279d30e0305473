"""A worker written with Temporal's Python SDK: one workflow that uses most of what the SDK has, and its activities."""

import asyncio
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker


@activity.defn
async def greet(name: str) -> str:
    if activity.info().attempt == 1:
        raise ApplicationError("not at the first attempt")
    activity.heartbeat("half way")
    return f"Hello, {name}"


@workflow.defn
class Shout:
    @workflow.run
    async def run(self, text: str) -> str:
        return text.upper()


@workflow.defn
class Waiting:
    """Waits for an activity that no worker takes."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "unheard",
            activity_id="unheard",
            task_queue=f"{workflow.info().task_queue}-unheard",
            start_to_close_timeout=timedelta(seconds=60),
        )


@workflow.defn
class Greeting:
    def __init__(self) -> None:
        self.approved_by = ""
        self.guests = []

    @workflow.run
    async def run(self, name: str) -> str:
        text = await workflow.execute_activity(
            greet,
            name,
            start_to_close_timeout=timedelta(seconds=10),
            heartbeat_timeout=timedelta(seconds=5),
            retry_policy=RetryPolicy(initial_interval=timedelta(milliseconds=20)),
        )
        await workflow.sleep(timedelta(milliseconds=20))
        text = await workflow.execute_child_workflow(Shout.run, text, id=f"{workflow.info().workflow_id}-shout")
        await workflow.wait_condition(lambda: self.approved_by != "")
        return f"{text} ({', '.join(self.guests)}), says {self.approved_by}"

    @workflow.signal
    def approve(self, who: str) -> None:
        self.approved_by = who

    @workflow.query
    def state(self) -> str:
        return "approved" if self.approved_by else "waiting"

    @workflow.update
    def invite(self, guest: str) -> int:
        self.guests.append(guest)
        return len(self.guests)

    @invite.validator
    def check(self, guest: str) -> None:
        if not guest:
            raise ApplicationError("a guest has a name")


async def main(address: str, queue: str) -> None:
    client = await Client.connect(address)
    async with Worker(client, task_queue=queue, workflows=[Greeting, Shout, Waiting], activities=[greet]):
        print("ready", flush=True)
        # The worker ends when its parent process closes stdin.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))

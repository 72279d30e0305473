"""The server is killed, or stopped as a deployment does, and started again; the same call of the SDK comes to its end.

These say how far they are; whoever runs them strikes then."""

import asyncio
import socket
from urllib.parse import urlsplit

from mantyx import define_local_tool
from world import agent, await_word, log, run_async, tell

DELTA = ("assistant_delta",)


def kill_stream(world):
    deltas = []

    def watch(event):
        if event.type == "assistant_delta":
            deltas.append(event.seq)
            if len(deltas) == 3:
                tell("in the stream")

    tell("ready")
    await_word("go")
    result = world.client().run_agent(**agent("very_slow"), prompt="?", on_event=watch)
    restarts = sum(event.type == "turn_restarted" for event in result.events)
    return {"restarts": restarts, "text": result.text, **log(result.events, without=DELTA)}


def kill_stream_async(world):
    async def work():
        events, deltas = [], 0
        async with world.async_client() as client:
            tell("ready")
            await_word("go")
            stream = client.stream_agent(**agent("very_slow"), prompt="?")
            stream = await stream if asyncio.iscoroutine(stream) else stream
            async for event in stream:
                events.append(event)
                deltas += event.type == "assistant_delta"
                if event.type == "assistant_delta" and deltas == 3:
                    tell("in the stream")
        return events

    events = run_async(work())
    restarts = sum(event.type == "turn_restarted" for event in events)
    return {"restarts": restarts, "text": events[-1].text, **log(events, without=DELTA)}


def kill_tool(world):
    """The handler is at work all the time the server is away."""
    calls = []

    def add(_):
        calls.append(1)
        tell("in the tool")
        await_word("the server is back")
        return "5"

    return outcome(world, add, calls)


def kill_post(world):
    """The handler ends while the server is away; the SDK has to post its result again and again."""
    calls = []

    def add(_):
        calls.append(1)
        tell("in the tool")
        await_word("the server is gone")
        assert not reachable(world.url)
        tell("about to return")
        return "5"

    return outcome(world, add, calls)


def reachable(url):
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def outcome(world, add, calls):
    tool = define_local_tool(name="add", execute=add)
    result = world.client().run_agent(**agent("add", tools=[tool]), prompt="?")
    return {"calls": len(calls), "text": result.text, **log(result.events)}


def stop_stream(world):
    return kill_stream(world)


def stop_tool(world):
    return kill_tool(world)


SCENARIOS = [kill_stream, kill_stream_async, kill_tool, kill_post, stop_stream, stop_tool]

"""Real peers behind the caller's tools: an MCP server over standard input and output, an A2A peer over HTTP."""

import os
import sys

from mantyx import define_local_a2a, define_local_mcp
from world import agent, log, payloads, run_async

CALL = ("name", "kind", "mcpServer", "mcpToolName", "args")


def clock():
    command = {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}
    return define_local_mcp(name="clock", **command, env={"PYTHONPATH": os.environ["WINDLASS_AGENT_PEERS"]})


def mcp_local(world):
    """With the client that can: the synchronous one of every version breaks before its first request."""

    async def work():
        async with world.async_client() as client:
            session = await client.create_session(**agent("asks_mcp", tools=[clock()]))
            result = await session.send("?")
            again = await session.send("?")
            await session.end()
            return result, again

    result, again = run_async(work())
    return {
        "calls": payloads(result.events, "local_tool_call", *CALL),
        "answered": '"time_difference": "+9.0h"' in result.text,
        "again": result.text == again.text,
        **log(result.events),
    }


def mcp_local_error(world):
    async def work():
        async with world.async_client() as client:
            return await client.run_agent(**agent("asks_mcp_badly", tools=[clock()]), prompt="?")

    result = run_async(work())
    return {"told": "ERROR: " in result.text and "Invalid timezone" in result.text, **log(result.events)}


def shouter():
    return define_local_a2a(name="shouter", agent_card_url=os.environ["WINDLASS_A2A_CARD"])


def a2a_local(world):
    result = world.client().run_agent(**agent("asks_a2a", tools=[shouter()]), prompt="hello")
    cards = payloads(result.events, "local_tool_call", "name", "kind", "agentCard", "args")
    for call in cards:
        call["agentCard"] = call["agentCard"]["name"]
    return {"calls": cards, "text": result.text, **log(result.events)}


def a2a_local_async(world):
    async def work():
        async with world.async_client() as client:
            return await client.run_agent(**agent("asks_a2a", tools=[shouter()]), prompt="hello")

    return {"text": run_async(work()).text}


def a2a_described(world):
    return {"described": world.client().run_agent(**agent("describes_a2a", tools=[shouter()]), prompt="?").text}


def a2a_local_error(world):
    return {"text": world.client().run_agent(**agent("asks_a2a_badly", tools=[shouter()]), prompt="?").text}


SCENARIOS = [mcp_local, mcp_local_error, a2a_local, a2a_local_async, a2a_described, a2a_local_error]

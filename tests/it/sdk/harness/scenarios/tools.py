"""Tools that the caller executes."""

import asyncio
import json
import threading

from mantyx import define_local_tool
from pydantic import BaseModel
from world import agent, answer, log, payloads, refusal, run_async


class Sum(BaseModel):
    a: int
    b: int


CALL = ("name", "args", "kind")
RESULT = ("output", "result", "error")


def adder(execute):
    return define_local_tool(name="add", description="Adds", parameters=Sum, execute=execute)


def local_tool(world):
    result = world.client().run_agent(**agent("add", tools=[adder(lambda sum: {"sum": sum.a + sum.b})]), prompt="?")
    calls, results = (payloads(result.events, *what) for what in (
        ("local_tool_call", *CALL), ("local_tool_result_in", *RESULT)))  # fmt: skip
    return {"calls": calls, "results": results, **answer(result)}


def local_tool_async(world):
    async def add(sum):
        await asyncio.sleep(0)
        return str(sum.a + sum.b)

    async def work():
        async with world.async_client() as client:
            return await client.run_agent(**agent("add", tools=[adder(add)]), prompt="?")

    return answer(run_async(work()))


def lookup(execute, **more):
    parameters = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    return define_local_tool(name="look", parameters=parameters, execute=execute, **more)


def tools_in_turn(world):
    """Without being told that they only read, calls come one after the other."""
    story = []

    def look(args):
        story.append(f"{args['key']} begins")
        story.append(f"{args['key']} ends")
        return f"<{args['key']}>"

    result = world.client().run_agent(**agent("pair", tools=[lookup(look)]), prompt="?")
    return {"story": story, "text": result.text, **log(result.events)}


def tools_at_once(world):
    """Each call waits for the other one: they are only answered if both are there."""
    both = threading.Barrier(2, timeout=40)

    def look(args):
        both.wait()
        return f"<{args['key']}>"

    result = world.client().run_agent(**agent("pair", tools=[lookup(look, read_only=True)]), prompt="?")
    return {"text": result.text, **log(result.events)}


def tool_error(world):
    def boom(_):
        raise ValueError("boom")

    result = world.client().run_agent(**agent("add", tools=[adder(boom)]), prompt="?")
    results = payloads(result.events, "local_tool_result_in", *RESULT)
    return {"results": results, "text": result.text, **log(result.events)}


def unknown_handler(world):
    """A session knows the tool, the client that continues it has no code for it."""
    first = world.client().create_session(**agent("add", tools=[adder(lambda sum: "never called")]))
    other = world.client().resume_session(first.id)
    return {"text": other.send("?").text}


def invalid_input(world):
    """The model's arguments do not fit the schema: the caller is not bothered with them."""
    called = []
    result = world.client().run_agent(**agent("misfit", tools=[adder(called.append)]), prompt="?")
    outcome = payloads(result.events, "tool_result", "name", "ok")
    told = json.loads(result.text.removeprefix("ERROR: "))
    hint = told["hint"]
    wrong = sorted(issue["field"] for issue in hint["issues"])
    told = {"kind": told["kind"], "missing": hint["missingFields"], "wrong": wrong}
    return {"called": called, "outcome": outcome, "told": told, **log(result.events)}


def long_running(world):
    job = define_local_tool(name="job", description="Starts a job.", long_running=True, execute=lambda _: "")
    return {"described": world.client().run_agent(**agent("described", tools=[job]), prompt="?").text}


def large_result(world):
    """Far above what a history carries."""
    body = "0123456789" * 30_000
    result = world.client().run_agent(**agent("add", tools=[adder(lambda _: body)]), prompt="?")
    return {"whole": result.text == f"sum={body}", **log(result.events)}


def empty_result(world):
    return {"text": world.client().run_agent(**agent("add", tools=[adder(lambda _: "")]), prompt="?").text}


def files(world):
    from mantyx import ToolResult, ToolResultFile

    note = ToolResultFile(filename="note.txt", mime_type="text/plain", data="aGVsbG8=")
    tool = adder(lambda _: ToolResult(result="see the file", files=[note]))
    result = world.client().run_agent(**agent("add", tools=[tool]), prompt="?")
    return {"told": "see the file" in result.text, "named": "note.txt" in result.text}


def tool_timeout(world):
    """On a server that waits a second only. The handler is let go when the run has ended."""
    over = threading.Event()
    events = []

    def watch(event):
        events.append(event)
        if event.type == "result":
            over.set()

    def wait(_):
        over.wait()
        return "too late"

    run = lambda: world.client().run_agent(**agent("add", tools=[adder(wait)]), prompt="?", on_event=watch)
    return {"raised": refusal(run), **log(events)}


SCENARIOS = [
    local_tool, local_tool_async, tools_in_turn, tools_at_once, tool_error, unknown_handler, invalid_input,
    long_running, large_result, empty_result, files, tool_timeout,
]  # fmt: skip

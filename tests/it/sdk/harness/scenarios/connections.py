"""Connections that break: the SDK comes back, and nothing is lost or heard twice."""

from mantyx import define_local_tool
from proxy import Proxy
from world import World, agent, collect, log, run_async, texts

CUTS = ((2, "reset"), (1, "refuse"), (3, "close"), (2, "reset"))


def in_order(proxy):
    """Every opening asked for what follows the last whole frame of the one before, never for something again."""
    return proxy.openings[0] == 0 and proxy.openings == sorted(proxy.openings)


def cut(world):
    proxy = Proxy(world.url, CUTS)
    result = World(proxy.url, world.key, world.workspace).client().run_agent(**agent("slow"), prompt="?")
    facts = {"openings": len(proxy.openings), "inOrder": in_order(proxy)}
    return facts | {"heard": "".join(texts(result.events)), "text": result.text, **log(result.events)}


def cut_async(world):
    async def work(url):
        async with World(url, world.key, world.workspace).async_client() as client:
            return await collect(client.stream_agent(**agent("slow"), prompt="?"))

    proxy = Proxy(world.url, CUTS)
    events = run_async(work(proxy.url))
    facts = {"openings": len(proxy.openings), "inOrder": in_order(proxy)}
    return facts | {"heard": "".join(texts(events)), **log(events)}


def cut_in_tool(world):
    """The stream breaks while the caller's tool is at work: the call is not made again."""
    proxy = Proxy(world.url)
    calls = []

    def add(_):
        calls.append(1)
        proxy.cut_now()
        assert proxy.reopened.wait(40)
        return "5"

    tool = define_local_tool(name="add", execute=add)
    result = World(proxy.url, world.key, world.workspace).client().run_agent(**agent("add", tools=[tool]), prompt="?")
    return {"calls": len(calls), "openings": len(proxy.openings), "text": result.text, **log(result.events)}


def left_and_gone_on(world):
    """Who leaves a stream does not stop the run; a session's conversation has its answer."""
    session = world.client().create_session(**agent("slow"))
    for event in session.stream("?"):
        if event.type == "assistant_delta":
            break
    # Nothing but the conversation tells; every look is a request.
    while len(session.history()) < 2:
        pass
    return {"history": [message["content"] for message in session.history()]}


SCENARIOS = [cut, cut_async, cut_in_tool, left_and_gone_on]

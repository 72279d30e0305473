"""The work of `windlass bench` as a graph of LangGraph, with its Postgres checkpointer.

A plan and each call are nodes; the calls of a turn are sent at once. `durability="sync"` writes every checkpoint before the
next step begins. A run that asks is interrupted, and its answer resumes it. Orders and reports are those of
`xtask/peers/shared/src/orders.rs`. `DATABASE` is the URL of the Postgres database.
"""

import asyncio
import json
import operator
import os
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

ENTRIES = 20
CONNECTIONS = 32
AT_ONCE = 64
MASK = (1 << 64) - 1


class State(TypedDict):
    run: str
    turns: int
    calls: int
    asks: bool
    turn: int
    decision: list
    results: Annotated[list, operator.add]


class Probe:
    """When steps begin, and how many calls have begun."""

    def __init__(self):
        self.beats, self.calls, self.until, self.reached = [], 0, None, asyncio.Event()

    def begins(self, step):
        self.beats.append((step, time.perf_counter()))
        if step == "call":
            self.calls += 1
            if self.until is not None and self.calls >= self.until:
                self.reached.set()

    def take_gaps(self):
        """Milliseconds from the start of each step to that of the next. Parallel calls are one step."""
        beats, self.beats = self.beats, []
        steps = [beat for before, beat in zip([None] + beats, beats) if not (before and before[0] == beat[0] == "call")]
        return [(after[1] - before[1]) * 1000 for before, after in zip(steps, steps[1:])]


probe = Probe()


def result(run, call):
    """About 1 KB, different for every call of every run."""
    state = 0xCBF29CE484222325
    for byte in f"{run}/{call['id']}".encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK

    def number():
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return mixed ^ (mixed >> 31)

    entries = [{"id": n, "name": f"{number():016x}", "score": number() % 10_000} for n in range(ENTRIES)]
    return {"call": call["id"], "entries": entries, "total": ENTRIES}


async def plan(state):
    probe.begins("plan")
    turn = state["turn"]
    calls = state["calls"] if turn < state["turns"] else 0
    decision = [{"id": f"call-{turn}-{call}", "turn": turn, "call": call} for call in range(calls)]
    return {"turn": turn + 1, "decision": decision}


def act(state):
    if state["decision"]:
        return [Send("lookup", {"run": state["run"], "call": call}) for call in state["decision"]]
    return "ask" if state["asks"] else END


async def lookup(sent):
    probe.begins("call")
    return {"results": [result(sent["run"], sent["call"])]}


async def ask(state):
    return {"asks": False, "results": [interrupt("Go on?")]}


def build(saver):
    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("lookup", lookup)
    graph.add_node("ask", ask)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", act, ["lookup", "ask", END])
    graph.add_edge("lookup", "plan")
    graph.add_edge("ask", "plan")
    return graph.compile(checkpointer=saver)


class Peer:
    def __init__(self, graph):
        self.graph, self.begun = graph, {}

    async def go(self, run, given):
        config = {"configurable": {"thread_id": run}, "recursion_limit": 100_000}
        return await self.graph.ainvoke(given, config, durability="sync")

    async def complete(self, run, turns=0, calls=0, asks=False):
        start = {"run": run, "turns": turns, "calls": calls, "asks": asks, "turn": 0, "decision": [], "results": []}
        return await self.go(run, start)

    async def finish(self, run, work):
        if run in self.begun:
            return await self.begun.pop(run)
        # Of an earlier process: the caller has to know the runs and to continue them; nothing else does.
        state = await self.graph.aget_state({"configurable": {"thread_id": run}})
        return await (self.go(run, None) if state.values else self.complete(run, **work))


async def each(runs, at_once, do):
    places = asyncio.Semaphore(at_once)

    async def one(run):
        async with places:
            return await do(run)

    return await asyncio.gather(*(one(run) for run in runs))


async def carry_out(peer, order):
    kind, first, count = order["order"], order["first"], order["count"]
    runs = [f"run-{run}" for run in range(first, first + count)]
    work = {"turns": order.get("turns", 0), "calls": order.get("calls", 0)}
    if kind == "run":
        gaps, _ = [], probe.take_gaps()
        for run in runs:
            await peer.complete(run, **work)
            gaps += probe.take_gaps()
        return {"gaps_ms": gaps}
    if kind == "batch":
        begun = time.perf_counter()
        await each(runs, len(runs), lambda run: peer.complete(run, **work))
        return {"wall_s": time.perf_counter() - begun}
    if kind == "signal":
        took = []
        for run in runs:
            # Nothing of a waiting run is in memory, so no client can wait for it: answering it continues it.
            await peer.complete(run, asks=True)
            sent = time.perf_counter()
            await peer.go(run, Command(resume="Yes."))
            took.append((time.perf_counter() - sent) * 1000)
        return {"ms": took}
    if kind == "park":
        await each(runs, AT_ONCE, lambda run: peer.complete(run, asks=True))
    elif kind == "begin":
        probe.calls, probe.until = 0, order["until"]
        peer.begun = {run: asyncio.create_task(peer.complete(run, **work)) for run in runs}
        await probe.reached.wait()
    elif kind == "finish":
        await each(runs, len(runs), lambda run: peer.finish(run, work))
    else:
        raise ValueError(f"unknown order: {order}")
    return {"done": True}


def say(document):
    print(json.dumps(document), flush=True)


async def main():
    settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(os.environ["DATABASE"], min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=settings, open=False)
    # A run that waits for a connection waits as long as it takes: the measurement has its own limit.
    pool.timeout = 600
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        peer = Peer(build(saver))
        say({"ready": True})
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                say(await carry_out(peer, json.loads(line)))
            except Exception as error:
                say({"failed": repr(error)})


asyncio.run(main())

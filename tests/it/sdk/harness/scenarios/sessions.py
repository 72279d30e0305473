"""Conversations of many runs."""

import uuid

from mantyx import define_local_tool
from world import PAGES, agent, log, payloads, refusal, run_async

BUDGET = ("tool_budget_exceeded", "tool", "maxCalls", "callIndex")


def info_of(session):
    info = session.info()
    return {
        "sameId": info.id == session.id,
        "name": info.name,
        "status": info.status,
        "ended": info.ended_at is not None,
        "metadata": info.metadata,
        "messages": info.messages,
        "spec": info.agent_spec,
    }


def session(world):
    session = world.client().create_session(**agent("chat", name="talk", metadata={"who": "ann"}))
    first = session.send("hello")
    events = list(session.stream("again"))
    return {"first": first.text, "second": events[-1].text, **log(events), "info": info_of(session)}


def session_async(world):
    async def work():
        async with world.async_client() as client:
            session = await client.create_session(**agent("chat"))
            texts = [(await session.send(prompt)).text for prompt in ("hello", "again")]
            history = await session.history()
            await session.end()
            return {"texts": texts, "history": history, "status": (await session.info()).status}

    return run_async(work())


def resume(world):
    """Another client goes on, with its own code for the session's tool."""
    tool = lambda answer: define_local_tool(name="add", parameters={"type": "object"}, execute=lambda _: answer)
    first = world.client().create_session(**agent("add", tools=[tool("one")]))
    texts = [first.send("hello").text]
    other = world.client().resume_session(first.id, tools=[tool("two")])
    texts.append(other.send("again").text)
    return {"texts": texts, "history": [message["content"] for message in other.history()]}


def ended(world):
    session = world.client().create_session(**agent("chat"))
    session.send("hello")
    session.end()
    facts = {"refused": refusal(lambda: session.send("again")), "status": session.info().status}
    session.end()
    return facts | {"history": len(session.history())}


def ended_at_work(world):
    """Ending a session stops what runs in it."""
    session = world.client().create_session(**agent("slow"))
    events, stopped = [], []

    def stop(event):
        events.append(event)
        if event.type == "assistant_delta" and not stopped:
            stopped.append(True)
            world.client().end_session(session.id)

    raised = refusal(lambda: session.send("?", on_event=stop))
    return {"raised": raised, "history": session.history(), **log(events, without=("assistant_delta",))}


def failed_turn(world):
    """A turn that fails leaves nothing in the conversation."""
    session = world.client().create_session(**agent("fails_overloaded"))
    raised = refusal(lambda: session.send("hello"))
    return {"raised": raised["code"], "history": session.history()}


def overrides(world):
    """What a message changes holds for its run alone."""
    called = []
    probe = define_local_tool(name="probe", execute=lambda _: called.append(1) or "seen")
    session = world.client().create_session(**agent("probe_once", tools=[probe], metadata={"a": "1", "b": "1"}))
    before = info_of(session)
    changed = session.send("x", tool_budgets={"probe": {"maxCalls": 0}}, metadata={"b": "2"}, reasoning_level="high")
    calls, unchanged = len(called), info_of(session) | {"messages": []} == before
    plain = session.send("x")
    return {
        "changed": {"events": payloads(changed.events, *BUDGET), "calls": calls},
        "sessionUnchanged": unchanged,
        "plain": {"text": plain.text, "calls": len(called)},
    }


def listed(world):
    """Found by what was attached to them, the latest used first."""
    client = world.client()
    mark = uuid.uuid4().hex
    create = lambda n: client.create_session(**agent("chat", metadata={"mark": mark, "n": f"a:{n}"}))
    sessions = {create(n).id: n for n in "123"}
    first = next(iter(sessions))
    client.resume_session(first).send("the first prompt")
    client.end_session(list(sessions)[1])
    name = lambda page: [sessions[row.session_id] for row in page.sessions]
    page = client.list_sessions(metadata={"mark": mark})
    facts = {
        "all": name(page),
        "page": {"total": page.total, "limit": page.limit, "offset": page.offset},
        "summary": page.sessions[0].summary,
        "metadata": page.sessions[0].metadata | {"mark": "it"},
        "both": name(client.list_sessions(metadata={"mark": mark, "n": "a:3"})),
        "none": name(client.list_sessions(metadata={"mark": mark, "n": "3"})),
        "active": name(client.list_sessions(metadata={"mark": mark}, status="active")),
        "ended": name(client.list_sessions(metadata={"mark": mark}, status="ended")),
        "second": name(client.list_sessions(metadata={"mark": mark}, limit=1, offset=1)),
        "refused": refusal(lambda: client.list_sessions(metadata={"not a key": "x"}))["code"],
    }
    if PAGES:
        pages, cursor = [], None
        while not pages or cursor:
            page = client.list_sessions(metadata={"mark": mark}, limit=2, cursor=cursor)
            pages.append(name(page))
            cursor = page.next_cursor
        facts["pages"] = pages
    return facts


def session_events(world):
    session = world.client().create_session(**agent("chat"))
    for prompt in ("one", "two"):
        session.send(prompt)
    flat = lambda events: [[event.seq, event.type, event.data.get("text")] for event in events]
    facts = {
        "all": flat(session.events()),
        "full": flat(session.events(full=True)),
        "last": flat(session.events(last_messages=1)),
    }
    if PAGES:
        page = session.events_page(last_messages=3)
        older = session.events_page(last_messages=3, before_seq=page.next_before_seq)
        seqs = lambda one: [event.seq for event in one.events]
        facts["pages"] = [
            {"seqs": seqs(one), "total": one.total, "next": one.next_before_seq, "truncated": one.truncated}
            for one in (page, older)
        ]
    return facts


SCENARIOS = [
    session, session_async, resume, ended, ended_at_work, failed_turn, overrides, listed, session_events,
]  # fmt: skip

"""What every scenario starts from, and how it reports what the SDK gave it."""

import asyncio
import os
import sys
from dataclasses import asdict, dataclass

import httpx
import mantyx
import watchdog

# The protocol's own events; a server may send others beside them.
PROTOCOL = {
    "started", "assistant_delta", "thinking_delta", "assistant_message", "tool_call", "tool_result", "tool_files",
    "local_tool_call", "local_tool_result_in", "loop_detected", "tool_budget_exceeded", "supervisor", "task_plan",
    "model_fallback", "result", "error", "cancelled",
}  # fmt: skip

# The releases fall into two families; the later one lists sessions, counts tokens and retries posts.
LATER = hasattr(mantyx.MantyxClient, "list_sessions")
PAGES = hasattr(mantyx.MantyxClient, "get_session_events_page")


@dataclass
class World:
    url: str
    key: str
    workspace: str

    @staticmethod
    def from_environment():
        return World(*(os.environ[f"WINDLASS_{name}"] for name in ("URL", "KEY", "WORKSPACE")))

    def credentials(self, **changes):
        return {"api_key": self.key, "workspace_slug": self.workspace, "base_url": self.url, **changes}

    def client(self, **changes):
        return mantyx.MantyxClient(**self.credentials(**changes))

    def async_client(self, **changes):
        return mantyx.AsyncMantyxClient(**self.credentials(**changes))

    def watched_client(self):
        """A client and the ids of the runs it starts; the SDK itself tells them only when a run is over."""
        runs = []

        def note(response):
            if response.request.method == "POST" and response.status_code == 202:
                response.read()
                runs.append(response.json()["runId"])

        timeout = httpx.Timeout(60, connect=10, read=None)
        http = httpx.Client(timeout=timeout, event_hooks={"response": [note]})
        return self.client(http_client=http), runs


def agent(model, **more):
    """What a run or a session of a scripted model needs."""
    return {"system_prompt": "You are a test.", "model_id": f"script:{model}", **more}


def run_async(work):
    return asyncio.run(work)


async def collect(stream):
    """Works for `stream_agent` of both clients: one returns an iterator, the other may have to be awaited first."""
    stream = await stream if asyncio.iscoroutine(stream) else stream
    return [event async for event in stream]


def log(events, without=()):
    """The protocol's events by type, and whether their seqs begin with 1 and increase, so that none came twice."""
    types = [event.type for event in events if event.type in PROTOCOL and event.type not in without]
    seqs = [event.seq for event in events]
    return {"types": types, "inOrder": seqs[:1] == [1] and all(a < b for a, b in zip(seqs, seqs[1:]))}


def answer(result, without=()):
    """A run's result as its caller sees it."""
    facts = {"text": result.text, "hasId": bool(result.run_id), **log(result.events, without)}
    if LATER:
        facts |= {"tokens": asdict(result.tokens), "turns": result.turns, "model": asdict(result.model)}
    return facts


def texts(events, kind="assistant_delta"):
    return [event.text for event in events if event.type == kind]


def payloads(events, kind, *fields):
    """These fields of every event of a type."""
    return [{field: event.data.get(field) for field in fields} for event in events if event.type == kind]


def failure(error):
    """An error of the SDK with everything it says."""
    facts = {"class": type(error).__name__, "message": error.message, "code": error.code}
    if isinstance(error, mantyx.MantyxRunError):
        for name in ("subtype", "error_class", "finish_reason", "partial_text", "retryable"):
            facts[name] = getattr(error, name)
        if LATER:
            facts |= {"turns": error.turns, "api_status": error.api_status}
    else:
        facts |= {"status": error.status, "hinted": error.hint is not None}
    return facts


def refusal(work):
    """What the SDK raised."""
    try:
        got = work()
    except mantyx.MantyxError as error:
        return failure(error)
    raise AssertionError(f"it was not refused: {got!r}")


def tell(word):
    """Says how far the scenario is; whoever started it may act on that."""
    watchdog.step({"at": word})


def await_word(word):
    said = sys.stdin.readline().strip()
    assert said == word, f"expected {word!r}, heard {said!r}"

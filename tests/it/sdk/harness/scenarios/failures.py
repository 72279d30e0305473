"""What goes wrong, and what the caller is told."""

from mantyx import define_local_tool
from world import agent, log, payloads, refusal

CLASSES = (
    "rate_limit", "overloaded", "server", "context_window", "invalid_request", "auth", "timeout", "upstream_deadline",
    "unknown",
)  # fmt: skip


def cancel(world):
    client, runs = world.watched_client()
    events, asked = [], []

    def stop(event):
        events.append(event)
        if event.type == "assistant_delta" and not asked:
            asked.append(True)
            client.cancel_run(runs[-1])

    raised = refusal(lambda: client.run_agent(**agent("slow"), prompt="?", on_event=stop))
    # Nobody knows how much was said until then.
    return {"raised": raised, **log(events, without=("assistant_delta", "assistant_message"))}


def truncation(world):
    events = []
    raised = refusal(lambda: world.client().run_agent(**agent("truncated"), prompt="?", on_event=events.append))
    message = payloads(events, "assistant_message", "text", "finishReason")
    return {"raised": raised, "message": message, **log(events)}


def model_errors(world):
    """Each class of error of a model, as the caller sees it."""
    client = world.client()
    return {name: refusal(lambda: client.run_agent(**agent(f"fails_{name}"), prompt="?")) for name in CLASSES}


def model_recovers(world):
    """An error that passes is the server's business alone."""
    result = world.client().run_agent(**agent("recovers"), prompt="?")
    return {"text": result.text, "inOrder": log(result.events)["inOrder"]}


def access(world):
    client = world.client()
    stranger, elsewhere = world.client(api_key="wrong"), world.client(workspace_slug="elsewhere")
    start = lambda client: lambda: client.run_agent(**agent("hello"), prompt="?")
    return {
        "run": refusal(start(stranger)),
        "models": refusal(stranger.list_models),
        "workspace": refusal(start(elsewhere)),
        "unknownRun": refusal(lambda: client.cancel_run("run-nobody-started")),
        "unknownSession": refusal(lambda: client.get_session_info("ses-nobody-started")),
        "oddId": refusal(lambda: client.cancel_run("../../etc/passwd")),
    }


def invalid_spec(world):
    client = world.client()
    start = lambda **spec: refusal(lambda: client.run_agent(**{"prompt": "?", **agent("hello"), **spec}))
    nonsense = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
    tool = define_local_tool(name="t", parameters=nonsense, execute=lambda _: "")
    twice = define_local_tool(name="t", execute=lambda _: "")
    brief = lambda said: {"code": said["code"], "status": said["status"], "field": said["message"].split(":")[0]}
    return {
        "model": brief(start(model_id="script:nobody")),
        "metadata": brief(start(metadata={"a key": "x"})),
        "tools": brief(start(tools=[twice, twice])),
        "schema": brief(start(tools=[tool])),
        "prompt": brief(start(prompt=None)),
        "agent": brief(start(agent_id="nobody")),
    }


SCENARIOS = [cancel, truncation, model_errors, model_recovers, access, invalid_spec]

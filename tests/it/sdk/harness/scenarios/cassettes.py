"""Models of providers: the answers are the vendors' own bytes, and what the vendor was asked is looked at elsewhere."""

from dataclasses import asdict

import httpx
import mantyx
from world import log, payloads, refusal, texts

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
# More than a message carries itself, so that it is stored apart and read again for each request.
PDF = "JVBERi0xLjQK" + "ICAg" * 1000
REPORT = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "celsius": {"type": "number"}},
    "required": ["city", "celsius"],
    "additionalProperties": False,
}
LEVELS = ("off", "low", "medium", "high", 0, 40, 100)


def on(model, **more):
    return {"system_prompt": "Be brief.", "model_id": model, **more}


def told(work):
    """What the SDK raised, with what it says about the provider."""
    try:
        got = work()
    except mantyx.MantyxRunError as error:
        facts = {"class": error.error_class, "code": error.code, "message": error.message}
        facts |= {"retryable": error.retryable, "partial": error.partial_text, "turns": error.turns}
        facts |= {"status": error.api_status, "apiCode": error.api_code, "model": asdict(error.model)}
        return facts | {"structured": error.structured_output and asdict(error.structured_output)}
    raise AssertionError(f"it did not fail: {got!r}")


def model_attachments(world):
    """An image and a document by their bytes, and both by their addresses."""

    def talk(model):
        inline, at = mantyx.input_file_attachment, mantyx.input_file_url_attachment
        files = [
            inline(mime_type="image/png", filename="dot.png", data=PIXEL),
            inline(mime_type="application/pdf", filename="tides.pdf", data=PDF),
            at(url="https://example.com/far.pdf", mime_type="application/pdf", filename="far.pdf"),
            at(url="https://example.com/pier.jpg", mime_type="image/jpeg"),
            at(url="https://example.com/chart.PDF?version=2"),
        ]
        session = world.client().create_session(**on(model))
        session.send("What is this?", attachments=files)
        session.send("And now?")
        return {"history": session.history()[0], "event": session.events()[0].data}

    return {model: talk(model) for model in ("files_anthropic:claude-sonnet-5-5", "files_openai:gpt-5.5")}


def fallback(world):
    """The provider is overloaded: another model answers, and the session stays with it."""
    session = world.client().create_session(**on("down:claude-sonnet-5-5", fallback_model_id="up:gpt-5.5"))
    first, second = session.send("Hello."), session.send("Again.")
    return {
        "texts": [first.text, second.text],
        "fallbacks": [payloads(result.events, "model_fallback", *FALLBACK) for result in (first, second)],
        "attempts": payloads(first.events, "attempt_failed", "model", "errorClass", "apiStatus", "retryable"),
        "models": [asdict(result.model) for result in (first, second)],
        "turns": [first.turns, second.turns],
        "message": payloads(first.events, "assistant_message", "model"),
        "active": session.info().agent_spec.get("activeModelId"),
        **log(first.events, without=("assistant_delta",)),
    }


FALLBACK = ("errorClass", "model", "primaryModelId", "fallbackModelId")


def fallback_of_a_run(world):
    """The SDK does not ask for snapshots of runs, so they are read without it."""
    spec = on("broken:gpt-5.5", fallback_model_id="spare:claude-sonnet-5-5")
    result = world.client().run_agent(**spec, prompt="Hello.")
    url = f"{world.url}/api/v1/workspaces/{world.workspace}/agent-runs/{result.run_id}"
    snapshot = httpx.get(url, headers={"authorization": f"Bearer {world.key}"}).json()
    return {
        "fallbacks": payloads(result.events, "model_fallback", *FALLBACK),
        "ending": payloads(result.events, "result", "text", "model"),
        "snapshot": {name: snapshot[name] for name in ("modelId", "model", "finalText", "status")},
    }


def no_fallback_for_a_quota(world):
    spec = on("spent:gpt-5.5", fallback_model_id="idle:claude-sonnet-5-5")
    return {"raised": told(lambda: world.client().run_agent(**spec, prompt="Hello."))}


def no_fallback_after_text(world):
    events = []
    spec = on("cut_off:claude-sonnet-5-5", fallback_model_id="idle:claude-sonnet-5-5")
    raised = told(lambda: world.client().run_agent(**spec, prompt="Hello.", on_event=events.append))
    return {"raised": raised, "fallbacks": payloads(events, "model_fallback", *FALLBACK), "restarts": count(events)}


def count(events):
    return sum(event.type == "turn_restarted" for event in events)


def brief(raised):
    """A refusal, and the field that it is about."""
    return {"code": raised["code"], "status": raised["status"], "field": raised["message"].split(":")[0]}


def no_such_fallback(world):
    refused = []

    def note(response):
        if response.status_code == 400:
            response.read()
            refused.append(response.json())

    client = world.client(http_client=httpx.Client(event_hooks={"response": [note]}))
    start = lambda model: refusal(lambda: client.run_agent(**on("up:gpt-5.5", fallback_model_id=model), prompt="?"))
    raised = [start("nobody:gpt-5.5"), start("up:gpt-5.5"), start("up/gpt-5.5")]
    return {"raised": [brief(one) for one in raised], "candidates": [body.get("candidates") for body in refused]}


def model_reasoning(world):
    """The levels of the protocol on the models that have a knob of each kind."""
    client = world.client()
    tool = mantyx.define_local_tool(name="tides_lookup", execute=lambda _: "14:32")

    def run(model, level):
        result = client.run_agent(**on(model, reasoning_level=level, tools=[tool]), prompt="Think.")
        thought = "".join(texts(result.events, "thinking_delta"))
        return {"thought": thought, "said": result.text, "effort": result.model.reasoning_effort}

    return {model: {str(level): run(model, level) for level in LEVELS} for model in THINKERS}


THINKERS = (
    "anthropic:claude-sonnet-5-5", "anthropic:claude-sonnet-4-5", "openai:gpt-5.5", "chat:gpt-5.5",
    "gemini:gemini-3-flash-preview", "gemini:gemini-2.5-flash", "plain:llama",
)  # fmt: skip


def thinking_goes_back(world):
    """What the model thought before it called a tool is in the request that has the result."""
    asked = []
    tool = mantyx.define_local_tool(name="weather_get", execute=lambda given: asked.append(given) or "-1 °C")
    spec = on("thinker:claude-sonnet-5-5", reasoning_level="high", tools=[tool])
    result = world.client().run_agent(**spec, prompt="Colder in Oslo or in Bergen?")
    return {"called": asked, "thought": "".join(texts(result.events, "thinking_delta")), "said": result.text}


def model_structured(world):
    """The schema is enforced by the provider, or by a tool, or only asked for."""
    schema = {"name": "report", "schema": REPORT}
    loose = {"name": "report", "schema": {"type": "object", "properties": {"city": {"type": "string"}}}}

    def run(model, schema):
        result = world.client().run_agent(**on(model, output_schema=schema), prompt="Oslo?")
        parsed = mantyx.parse_run_output(result, lambda value: value)
        return {"parsed": parsed, "info": asdict(result.structured_output), "turns": result.turns}

    return {
        "native_anthropic": run("native_anthropic:claude-sonnet-5-5", schema),
        "native_openai": run("native_openai:gpt-5.5", {**schema, "enforcement": "strict"}),
        "loose_openai": run("loose_openai:gpt-5.5", loose),
        "by_tool": run("by_tool:claude-sonnet-5-5", {**schema, "enforcement": "strict"}),
    }


def model_repairs(world):
    """An answer that does not fit is repaired once."""
    strict = {"name": "report", "schema": REPORT, "enforcement": "strict"}
    session = world.client().create_session(**on("instructed:claude-sonnet-5-5", output_schema=strict))
    repaired = session.send("Oslo?")
    unrepaired = on("unrepaired:claude-sonnet-5-5", output_schema=strict)
    # Without `strict` the answer is the caller's to judge.
    free = on("freely:claude-sonnet-5-5", output_schema={"name": "report", "schema": REPORT})
    free = world.client().run_agent(**free, prompt="Oslo?")
    return {
        "repaired": {"text": repaired.text, "turns": repaired.turns, "info": asdict(repaired.structured_output)},
        "history": session.history(),
        "unrepaired": told(lambda: world.client().run_agent(**unrepaired, prompt="Oslo?")),
        "free": {"text": free.text, "turns": free.turns, "info": asdict(free.structured_output)},
    }


def schema_rejected(world):
    spec = on("rejecting:gpt-5.5", output_schema={"name": "report", "schema": REPORT, "enforcement": "strict"})
    return {"raised": told(lambda: world.client().run_agent(**spec, prompt="Oslo?"))}


def other_name(world):
    """A model by another name: the catalogue and every event say which model it is."""
    client = world.client()
    listed = next(model for model in client.list_models().models if model.id == "fast")
    result = client.run_agent(**on("fast"), prompt="Hello.")
    itself = on("fast", fallback_model_id="named:claude-sonnet-5-5")
    return {
        "listed": {"provider": listed.provider, "vendor": listed.vendor_model_id},
        "message": payloads(result.events, "assistant_message", "model"),
        "result": asdict(result.model),
        "tokens": asdict(result.tokens),
        "sameModel": brief(refusal(lambda: client.run_agent(**itself, prompt="Hello."))),
    }


SCENARIOS = [
    model_attachments, fallback, fallback_of_a_run, no_fallback_for_a_quota, no_fallback_after_text, no_such_fallback,
    model_reasoning, thinking_goes_back, model_structured, model_repairs, schema_rejected, other_name,
]  # fmt: skip

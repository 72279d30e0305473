"""Runs that only talk."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import mantyx
from world import LATER, agent, answer, collect, log, payloads, refusal, run_async, texts


def models(world):
    catalogue = world.client().list_models()
    hello = next(model for model in catalogue.models if model.id == "script:hello")
    return {"hello": asdict(hello), "default": catalogue.default_model_id}


def run(world):
    heard, seen = [], []
    result = world.client().run_agent(
        **agent("hello", name="greeter", metadata={"suite": "sdk"}),
        prompt="world",
        on_assistant_delta=heard.append,
        on_event=lambda event: seen.append(event.seq),
    )
    return {"heard": heard, "sawAll": seen == [event.seq for event in result.events], **answer(result)}


def run_async_client(world):
    async def work():
        async with world.async_client() as client:
            return await client.run_agent(**agent("hello"), prompt="world")

    return answer(run_async(work()))


def stream(world):
    events = list(world.client().stream_agent(**agent("hello"), prompt="world"))
    message = payloads(events, "assistant_message", "text", "turn", "finishReason", "model")
    ending = payloads(events, "result", "subtype", "text", "turns")
    return {"deltas": texts(events), "message": message, "ending": ending, **log(events)}


def stream_async_client(world):
    async def work():
        async with world.async_client() as client:
            return await collect(client.stream_agent(**agent("hello"), prompt="world"))

    events = run_async(work())
    return {"deltas": texts(events), **log(events)}


def messages(world):
    said = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]
    facts = {"carried": world.client().run_agent(**agent("chat"), messages=said).text}
    if LATER:
        told = [{"role": "system", "content": "Be brief."}, *said[:1]]
        facts["system"] = world.client().run_agent(model_id="script:system", messages=told).text
    return facts


def reasoning(world):
    def thoughts(level):
        events = list(world.client().stream_agent(**agent("thinker", reasoning_level=level), prompt="?"))
        return {"thought": texts(events, "thinking_delta"), "said": texts(events, "result")}

    return {str(level): thoughts(level) for level in ("high", 40, "off", 0)}


def structured(world):
    from pydantic import BaseModel

    class Weather(BaseModel):
        city: str
        temp: int

    schema = {"name": "weather", "schema": Weather.model_json_schema()}
    result = world.client().run_agent(**agent("weather", output_schema=schema), prompt="?")
    facts = {"parsed": mantyx.parse_run_output(result, Weather.model_validate).model_dump(), "text": result.text}
    if LATER:
        facts["info"] = asdict(result.structured_output)
    try:
        mantyx.parse_run_output(world.client().run_agent(**agent("hello"), prompt="world"))
    except mantyx.MantyxParseError as error:
        facts["unparsed"] = error.text
    return facts


def strict(world):
    """A schema that must hold: an answer that does not fit is a failure, never a result."""
    schema = {"name": "weather", "schema": {"type": "object", "required": ["city"]}, "enforcement": "strict"}
    client = world.client()
    fits = client.run_agent(**agent("weather", output_schema=schema), prompt="?")
    misfit = refusal(lambda: client.run_agent(**agent("hello", output_schema=schema), prompt="world"))
    return {"fits": asdict(fits.structured_output), "misfit": misfit}


def odd_text(world):
    """Whatever would end a line, a frame or a string."""
    said = "æ 🚢 \u2028 \r\n\r\n data: x\n\nid: 9 \\ \" \x00 end"
    result = world.client().run_agent(**agent("hello"), prompt=said)
    return {"same": result.text == f"Hello, {said}", **log(result.events)}


def many_events(world):
    """More than a server reads of a log at a time."""
    events = list(world.client().stream_agent(**agent("chatty"), prompt="?"))
    return {"heard": "".join(texts(events)), **log(events, without=("assistant_delta",))}


def at_once(world):
    """One client, many threads: nobody hears what was said to another."""
    client = world.client()
    with ThreadPoolExecutor(8) as pool:
        heard = pool.map(lambda n: client.run_agent(**agent("hello"), prompt=str(n)).text, range(16))
    return {"heard": list(heard)}


def stored_agent(world):
    """An agent of the server by its id: its prompt wins, the caller's tools are added to its own."""
    tool = mantyx.define_local_tool(name="extra", execute=lambda _: "")
    result = world.client().run_agent(agent_id="keeper", system_prompt="not this one", tools=[tool], prompt="?")
    return {"text": result.text}


def attachments(world):
    file = mantyx.input_file_attachment(mime_type="text/plain", filename="note.txt", data="aGVsbG8=")
    link = mantyx.input_file_url_attachment(url="https://example.com/a.pdf", mime_type="application/pdf")
    session = world.client().create_session(**agent("chat"))
    session.send("look", attachments=[file, link])
    return {"history": session.history()[0], "event": session.events()[0].data}


SCENARIOS = [
    models, run, run_async_client, stream, stream_async_client, messages, reasoning, structured, strict, odd_text,
    many_events, at_once, stored_agent, attachments,
]  # fmt: skip

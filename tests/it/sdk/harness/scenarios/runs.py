"""Runs that only talk."""

from dataclasses import asdict

import mantyx
from world import LATER, agent, answer, collect, log, payloads, run_async, texts


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


SCENARIOS = [models, run, run_async_client, stream, stream_async_client, messages, reasoning, structured]

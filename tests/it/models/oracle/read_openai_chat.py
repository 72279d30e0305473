"""OpenAI Chat Completions, read by `openai`."""

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.lib.streaming.chat._completions import _is_valid_chat_completion_chunk_weak as is_chunk

import neutral
from openai_failure import ResponseFailed, client, describe

__all__ = ["describe", "read"]


def read(base_url, body, strict):
    state, began, counted, last = ChatCompletionStreamState(), [], None, None
    with client(base_url, strict).chat.completions.create(**body) as chunks:
        for chunk in filter(is_chunk, chunks):
            state.handle_chunk(chunk)
            counted = chunk.usage or counted
            for choice in chunk.choices:
                last = choice.finish_reason or last
                # The SDK gathers the parts of a message by name. The order in which they began is kept here.
                began += [kind for kind in kinds(choice.delta) if kind not in began]
    if last is None:
        raise ResponseFailed(None, "the stream ended without a finish reason")
    completion = state.current_completion_snapshot
    message = completion.choices[0].message
    return {
        "blocks": [one for kind in began for one in blocks(kind, message)],
        "stop": last,
        "usage": usage(counted),
        "responseId": completion.id,
        "model": completion.model,
    }


# Fields that compatible servers add for reasoning. They make one block.
REASONING = ("reasoning_content", "reasoning", "reasoning_details")


def kinds(delta):
    if any(getattr(delta, key, None) for key in REASONING):
        yield "thinking"
    if delta.content or getattr(delta, "annotations", None):
        yield "text"
    if delta.refusal:
        yield "refusal"
    if delta.tool_calls:
        yield "calls"


def blocks(kind, message):
    fields = neutral.without_nulls(message.to_dict(mode="json"))
    if kind == "thinking":
        item = {key: fields[key] for key in REASONING if fields.get(key)}
        readable = [item[key] for key in REASONING[:2] if key in item]
        readable += ["".join(one.get("text") or one.get("summary") or "" for one in item.get("reasoning_details", []))]
        return [{"kind": "thinking", "text": readable[0], "item": item}]
    if kind == "text":
        # Fields that the SDK does not know belong to the message and are kept with its text.
        known = ("role", "refusal", "tool_calls", "parsed", *REASONING)
        item = {key: value for key, value in fields.items() if key not in known}
        marks = [citation(mark) for mark in item.get("annotations", [])]
        return [{**neutral.text(message.content, marks), "item": item}]
    if kind == "refusal":
        return [{**neutral.text(message.refusal), "refused": True, "item": {"refusal": message.refusal}}]
    return [call(one) for one in message.tool_calls]


def call(one):
    item = neutral.without_nulls(one.to_dict(mode="json"))
    # Only deltas have an index. The SDK adds the parsed arguments.
    item.pop("index", None)
    item["function"].pop("parsed_arguments", None)
    # No arguments are an empty text on the way here, and an object on the way back.
    item["function"]["arguments"] = one.function.arguments or "{}"
    arguments = neutral.arguments(one.function.arguments)
    return {"kind": "call", "id": one.id, "name": one.function.name, "arguments": arguments, "item": item}


def citation(mark):
    url = mark.get("url_citation") or {}
    return neutral.citation(url.get("title"), url.get("url"))


def usage(counted):
    if counted is None:
        return neutral.usage(0, 0)
    prompt, completion = counted.prompt_tokens_details, counted.completion_tokens_details
    return neutral.usage(
        counted.prompt_tokens,
        counted.completion_tokens,
        prompt and prompt.cached_tokens,
        prompt and getattr(prompt, "cache_write_tokens", None),
        completion and completion.reasoning_tokens,
        counted.total_tokens,
    )

"""OpenAI Responses, read by `openai`."""

import openai
from openai.lib.streaming.responses._responses import ResponseStreamState

import neutral
from openai_failure import ResponseFailed, client, describe

__all__ = ["describe", "read"]


def read(base_url, body, strict):
    final, done = None, {}
    # The SDK's own accumulator checks that the events fit together.
    state = ResponseStreamState(input_tools=openai.omit, text_format=openai.omit)
    with client(base_url, strict).responses.create(**body) as events:
        for event in events:
            if event.type == "error":
                raise ResponseFailed(event.code, event.message)
            state.handle_event(event)
            if event.type == "response.output_item.done":
                done[event.output_index] = plain(event.item)
            if event.type in ("response.completed", "response.incomplete", "response.failed"):
                final = event.response
    if final is None:
        raise ResponseFailed(None, "the stream ended without a response")
    if final.status == "failed":
        raise ResponseFailed(final.error.code, final.error.message)
    items = [plain(item) for item in final.output]
    finished = [done[index] for index in sorted(done)]
    # A server may send the items with the response only.
    if finished and items != finished:
        raise AssertionError(f"the items of the stream {finished} are not those of the response {items}")
    counted = final.usage
    return {
        "blocks": [one for item in final.output for one in blocks(item)],
        "stop": final.incomplete_details.reason if final.incomplete_details else final.status,
        "usage": neutral.usage(
            counted.input_tokens,
            counted.output_tokens,
            counted.input_tokens_details.cached_tokens,
            getattr(counted.input_tokens_details, "cache_write_tokens", None),
            counted.output_tokens_details.reasoning_tokens,
            counted.total_tokens,
        ),
        "responseId": final.id,
        "model": final.model,
    }


def plain(item):
    return neutral.without_nulls(item.to_dict(mode="json"))


def blocks(item):
    """One block for each content of a message, of which the first has the item; one for any other item."""
    item_of = [{"item": plain(item)}, *[{}] * 99]
    if item.type == "message":
        return [{**content(one), **own} for one, own in zip(item.content, item_of)]
    return [{**block(item, plain(item)), **item_of[0]}]


def content(one):
    if one.type == "output_text":
        return neutral.text(one.text, [citation(mark) for mark in one.annotations])
    if one.type == "refusal":
        return {**neutral.text(one.refusal), "refused": True}
    return {"kind": "other", "type": one.type}


def block(item, raw):
    if item.type == "reasoning":
        shown = item.summary or item.content or []
        return {"kind": "thinking", "text": "\n\n".join(part.text for part in shown)}
    if item.type == "function_call":
        arguments = neutral.arguments(item.arguments)
        return {"kind": "call", "id": item.call_id, "name": item.name, "arguments": arguments}
    if item.type == "web_search_call":
        action = raw.get("action", {})
        return tool("web_search", action or None, action.get("sources"))
    if item.type == "file_search_call":
        return tool("file_search", {"queries": item.queries}, raw.get("results"))
    if item.type == "code_interpreter_call":
        return tool("code_interpreter", item.code is not None and {"code": item.code}, raw.get("outputs"))
    if item.type == "image_generation_call":
        prompt = raw.get("revised_prompt")
        return tool("image_generation", prompt and {"prompt": prompt}, None)
    if item.type == "mcp_call":
        failed = item.error and {"error": raw["error"]}
        return tool(f"{item.server_label}.{item.name}", neutral.arguments(item.arguments), item.output or failed)
    return {"kind": "other", "type": item.type}


def tool(name, input, output):
    return neutral.without_nulls({"kind": "provider_tool", "name": name, "input": input or None, "output": output})


def citation(mark):
    title = getattr(mark, "title", None) or getattr(mark, "filename", None)
    return neutral.citation(title, getattr(mark, "url", None) or getattr(mark, "file_id", None))

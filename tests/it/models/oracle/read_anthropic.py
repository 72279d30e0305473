"""Anthropic Messages, read by `anthropic`."""

import anthropic
from anthropic.lib.streaming._messages import accumulate_event

import neutral


def client(base_url, strict=False):
    return anthropic.Anthropic(
        api_key="none", base_url=base_url, max_retries=0, timeout=20, _strict_response_validation=strict
    )


def read(base_url, body, strict):
    message, buffers, complete = None, {}, False
    with client(base_url, strict).messages.create(**body) as events:
        for event in events:
            message = accumulate_event(event=event, current_snapshot=message, json_bufs=buffers)
            complete |= event.type == "message_stop"
    if not complete:
        # The SDK hands over what there is and leaves it to the program to look.
        raise EOFError("the stream ended without message_stop")
    counted = message.usage
    cached, written = counted.cache_read_input_tokens or 0, counted.cache_creation_input_tokens or 0
    details = counted.output_tokens_details
    return {
        "blocks": blocks(message.content),
        "stop": message.stop_reason,
        "usage": neutral.usage(
            counted.input_tokens + cached + written,
            counted.output_tokens,
            cached,
            written,
            getattr(details, "thinking_tokens", None),
        ),
        "responseId": message.id,
        "model": message.model,
    }


def blocks(content):
    called = {one.id: one.name for one in content if one.type in ("server_tool_use", "mcp_tool_use")}
    items = [neutral.without_nulls(one.to_dict(mode="json")) for one in content]
    return [{**block(one, item, called), "item": item} for one, item in zip(content, items)]


def block(one, item, called):
    if one.type == "text":
        return neutral.text(one.text, [citation(each) for each in one.citations or []])
    if one.type == "thinking":
        return neutral.without_nulls({"kind": "thinking", "text": one.thinking, "signature": one.signature or None})
    if one.type == "redacted_thinking":
        return {"kind": "redacted", "data": one.data}
    if one.type == "tool_use":
        return {"kind": "call", "id": one.id, "name": one.name, "arguments": one.input}
    if one.type in ("server_tool_use", "mcp_tool_use"):
        return {"kind": "provider_tool", "name": one.name, "input": one.input}
    if one.type.endswith("_tool_result"):
        name = called.get(one.tool_use_id, one.type.removesuffix("_tool_result"))
        return {"kind": "provider_tool", "name": name, "output": item["content"]}
    return {"kind": "other", "type": one.type}


def citation(each):
    title = getattr(each, "title", None) or getattr(each, "document_title", None)
    return neutral.citation(title, getattr(each, "url", None) or getattr(each, "source", None))


def describe(error):
    if not isinstance(error, anthropic.APIStatusError):
        return neutral.failure(error)
    body = error.body if isinstance(error.body, dict) else {}
    said = body.get("error") or {}
    code = (said.get("details") or {}).get("error_code") or said.get("type")
    wait = client("http://unused")._parse_retry_after_header(error.response.headers)
    # An error inside a stream has the status of the stream.
    status = error.status_code if error.status_code >= 400 else None
    return neutral.failure(error, status, code, wait)

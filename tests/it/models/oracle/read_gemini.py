"""Gemini generateContent, read by `google-genai`."""

import base64
import json
import warnings

from google import genai
from google.genai import errors, types

import neutral



def read(base_url, body, strict):
    answer = Answer()
    with client(base_url) as sdk, warnings.catch_warnings():
        if strict:
            check_chunks(sdk)
        for chunk in sdk.models.generate_content_stream(**parameters(body)):
            answer.add(chunk)
    if answer.finish is None and answer.blocked is None:
        raise EOFError("the stream ended without a finish reason")
    return {
        "blocks": answer.blocks(),
        "stop": answer.finish or answer.blocked,
        "usage": usage(answer.usage),
        "responseId": answer.response_id,
        "model": answer.model,
    }


def client(base_url):
    # The SDK's default is the version `v1`, which lacks the aliases of models; Google documents both.
    options = types.HttpOptions(
        base_url=base_url,
        api_version="v1beta",
        timeout=20_000,
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    return genai.Client(api_key="none", vertexai=False, http_options=options)


def check_chunks(sdk):
    """The SDK drops fields that it does not know and only warns of words that an enum does not have. Here both fail."""
    warnings.simplefilter("error")
    streamed = sdk._api_client.request_streamed

    def checked(*arguments):
        for response in streamed(*arguments):
            types.GenerateContentResponse.model_validate_json(response.body)
            yield response

    sdk._api_client.request_streamed = checked


def parameters(body):
    """The arguments that make the SDK write this body. The SDK writes it again, and the server records it."""
    config = dict(body.get("generationConfig") or {})
    for key in ("systemInstruction", "tools", "toolConfig", "safetySettings", "cachedContent", "serviceTier"):
        if key in body:
            config[key] = body[key]
    config["automaticFunctionCalling"] = {"disable": True}
    # A long answer would be continued with another request; here one request has one answer.
    config["automaticContinuation"] = False
    contents = [types.Content.model_validate_json(json.dumps(one)) for one in body["contents"]]
    config = types.GenerateContentConfig.model_validate_json(json.dumps(config))
    return {"model": body["model"], "contents": contents, "config": config}


class Answer:
    """The chunks of an answer. The SDK yields them; putting them together is left to the program."""

    def __init__(self):
        self.parts = []
        self.grounding = {}
        # Where in the answer the search is reported.
        self.searched = None
        self.finish = self.blocked = self.usage = self.response_id = self.model = None

    def add(self, chunk):
        self.usage = chunk.usage_metadata or self.usage
        self.response_id = chunk.response_id or self.response_id
        self.model = chunk.model_version or self.model
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            self.blocked = chunk.prompt_feedback.block_reason.value
        for candidate in (chunk.candidates or [])[:1]:
            for part in (candidate.content and candidate.content.parts) or []:
                self.add_part(part)
            if candidate.finish_reason:
                self.finish = candidate.finish_reason.value
            if candidate.grounding_metadata:
                self.ground(candidate.grounding_metadata)

    def add_part(self, part):
        """Text comes in pieces. Pieces of the same kind that follow each other are one text, unless one is signed."""
        one = block(part)
        if one is None:
            return
        before = self.parts[-1] if self.parts else None
        is_text = one["kind"] in ("text", "thinking")
        if before and is_text and before["kind"] == one["kind"] and not signed(before) and not signed(one):
            before["text"] += one["text"]
            before["item"]["text"] += one["item"]["text"]
        else:
            self.parts.append(one)

    def ground(self, metadata):
        self.grounding.update(metadata.model_dump(mode="json", by_alias=True, exclude_none=True))
        if self.searched is None and self.grounding.get("webSearchQueries"):
            self.searched = len(self.parts)

    def blocks(self):
        blocks = [dict(one) for one in self.parts]
        for support in self.grounding.get("groundingSupports", []):
            self.cite(blocks, support)
        if self.searched is not None:
            results = {key: value for key, value in self.grounding.items() if key != "webSearchQueries"}
            search = {"queries": self.grounding["webSearchQueries"]}
            found = {"kind": "provider_tool", "name": "google_search", "input": search, "output": results}
            blocks.insert(self.searched, found)
        return blocks

    def cite(self, blocks, support):
        chunks = self.grounding.get("groundingChunks", [])
        chunks = [chunks[index] for index in support.get("groundingChunkIndices", [])]
        sources = [chunk[key] for chunk in chunks for key in ("web", "retrievedContext", "maps") if key in chunk]
        texts = [one for one in blocks if one["kind"] == "text"]
        quoted = support.get("segment", {}).get("text", "")
        text = next((one for one in texts if quoted in one["text"]), texts[-1])
        cited = [neutral.citation(source.get("title"), source.get("uri")) for source in sources]
        text.setdefault("citations", []).extend(cited)


def signed(one):
    return "thoughtSignature" in one["item"]


def block(part):
    item = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    # The SDK reads bytes and writes them with the alphabet for URLs.
    if part.thought_signature:
        item["thoughtSignature"] = base64.b64encode(part.thought_signature).decode()
    if part.inline_data:
        item["inlineData"]["data"] = base64.b64encode(part.inline_data.data).decode()
    content = content_of(part, item)
    return content and {**content, "item": item}


def content_of(part, item):
    if part.function_call:
        call = part.function_call
        return {"kind": "call", "id": call.id, "name": call.name, "arguments": call.args or {}}
    if part.executable_code:
        return {"kind": "provider_tool", "name": "code_execution", "input": item["executableCode"]}
    if part.code_execution_result:
        return {"kind": "provider_tool", "name": "code_execution", "output": item["codeExecutionResult"]}
    if part.tool_call:
        called = item["toolCall"]
        return {"kind": "provider_tool", "name": called["toolType"].lower(), "input": called.get("args")}
    if part.tool_response:
        told = item["toolResponse"]
        return {"kind": "provider_tool", "name": told["toolType"].lower(), "output": told.get("response")}
    if part.inline_data:
        is_image = part.inline_data.mime_type.startswith("image/")
        return {"kind": "image"} if is_image else {"kind": "other", "type": "inlineData"}
    if part.text or part.thought_signature:
        # A signature alone belongs to a thought that is not shown.
        kind = "thinking" if part.thought or not part.text else "text"
        content = {"kind": kind, "text": part.text or ""}
        if kind == "thinking" and part.thought_signature:
            content["signature"] = item["thoughtSignature"]
        return content
    if part.text is not None:
        return None
    return {"kind": "other"}


def usage(counted):
    if counted is None:
        return neutral.usage(0, 0)
    thoughts = counted.thoughts_token_count or 0
    return neutral.usage(
        (counted.prompt_token_count or 0) + (counted.tool_use_prompt_token_count or 0),
        (counted.candidates_token_count or 0) + thoughts,
        counted.cached_content_token_count,
        None,
        thoughts,
        counted.total_token_count,
    )


def describe(error):
    if not isinstance(error, errors.APIError):
        return neutral.failure(error)
    details = (error.details or {}).get("error", {}).get("details", [])
    described = neutral.failure(error, error.code, error.status, retry_delay(details))
    reasons = [one["reason"] for one in details if "reason" in one]
    return {**described, **({"reason": reasons[0]} if reasons else {})}


def retry_delay(details):
    """The seconds of `google.rpc.RetryInfo`, which the SDK leaves to the program."""
    delays = [one["retryDelay"] for one in details if one.get("@type", "").endswith("/google.rpc.RetryInfo")]
    return float(delays[0].removesuffix("s")) if delays else None

"""The form in which both sides say what they read: ordered blocks, the provider's word for the stop, usage.

Each block has the vendor's own `item`, as the SDK would send it back, without fields that are null.
"""

import json


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def arguments(text):
    """The arguments of a call. Text that is no JSON is marked."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {"unreadable": text}


def text(text, citations=()):
    block = {"kind": "text", "text": text}
    if citations:
        block["citations"] = list(citations)
    return block


def citation(title=None, source=None):
    return without_nulls({"title": title, "source": source})


def usage(input, output, cache_read=None, cache_write=None, reasoning=None, total=None):
    """`input` has the tokens of the cache, too."""
    input, output = input or 0, output or 0
    return {
        "inputTokens": input,
        "outputTokens": output,
        "totalTokens": total if total is not None else input + output,
        "cacheReadTokens": cache_read or 0,
        "cacheWriteTokens": cache_write or 0,
        "reasoningTokens": reasoning or 0,
    }


def failure(error, status=None, code=None, retry_after=None):
    names = [kind.__name__ for kind in type(error).__mro__ if kind not in (Exception, BaseException, object)]
    described = {"exceptions": names, "status": status, "code": code, "message": str(error)}
    if retry_after is not None:
        described["retryAfterMs"] = round(retry_after * 1000)
    return without_nulls(described)

"""The vendors' own SDKs as the oracle for our adapters.

`main.py read` reads a JSON list of {format, baseUrl, model, body} from standard input, sends each body with the vendor's
SDK and prints one JSON line for each: the content that the SDK read, in the neutral form of `neutral.py`.

`main.py validate` reads a JSON list of {format, body} and prints one JSON line for each: the problems that the SDK's
types have with the request.
"""

import importlib
import json
import sys

READERS = {
    "anthropic": "read_anthropic",
    "openai_chat": "read_openai_chat",
    "openai_responses": "read_openai_responses",
    "gemini": "read_gemini",
}


def read(item):
    reader = importlib.import_module(READERS[item["format"]])
    # Gemini has the model in the path only.
    body = {"model": item["model"], **json.loads(item["body"])}
    answer = {"read": attempt(reader, item["baseUrl"], body, strict=False)}
    # Reading is tolerant by default: a cassette with a field of the wrong type would pass. This reads again and checks
    # every event by the SDK's types.
    strict = attempt(reader, item["baseUrl"], body, strict=True)
    if strict != answer["read"]:
        answer["strict"] = strict
    return answer


def attempt(reader, base_url, body, strict):
    try:
        return reader.read(base_url, body, strict)
    except Exception as error:
        return {"error": reader.describe(error)}


def validate(item):
    from types_of_requests import problems

    return problems(item["format"], item["body"])


def main():
    work = {"read": read, "validate": validate}[sys.argv[1]]
    for item in json.load(sys.stdin):
        print(json.dumps(work(item)), flush=True)


if __name__ == "__main__":
    main()

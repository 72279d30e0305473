"""Exceptions of `openai`, the same for both of its formats."""

import openai

import neutral


def client(base_url, strict=False):
    return openai.OpenAI(
        api_key="none", base_url=base_url, max_retries=0, timeout=20, _strict_response_validation=strict
    )


class ResponseFailed(Exception):
    """A response that ended as failed: the SDK hands it over as a value and leaves it to the program to look."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def describe(error):
    if isinstance(error, ResponseFailed):
        return neutral.failure(error, code=error.code)
    if not isinstance(error, openai.APIError):
        return neutral.failure(error)
    code = error.code or error.type
    if not isinstance(error, openai.APIStatusError):
        # Some compatible servers have the status of their upstream as the code.
        status = int(code) if code and code.isdigit() else None
        return neutral.failure(error, status, code)
    wait = client("http://unused")._parse_retry_after_header(error.response.headers)
    return neutral.failure(error, error.status_code, code, wait)

"""Request bodies against the vendors' own types: every unknown field, missing field and wrong type is reported.

Anthropic and OpenAI declare what a caller may send as TypedDicts, which nothing checks when a program runs. They are
walked here. Where a union also has classes of responses, because an answer may be sent back as it came, these are
walked, too. (Pydantic cannot do it: it checks the items of an `Iterable` only when they are asked for, and the classes
of responses allow any field.) Google's types are pydantic models that forbid unknown fields.
"""

import json
import types
import typing
import warnings
from collections.abc import Iterable, Mapping, Sequence

import pydantic
import typing_extensions as extensions


def problems(format, body):
    """One line for each problem; nothing if the vendor's types accept the request."""
    body = json.loads(body)
    if format == "gemini":
        return gemini_problems(body)
    return [f"{path or 'the request'}: {what}" for path, what in check(request_type(format), body, "")]


def request_type(format):
    if format == "anthropic":
        from anthropic.types.message_create_params import MessageCreateParamsStreaming as request
    elif format == "openai_chat":
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as request
    elif format == "openai_responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming as request
    else:
        raise ValueError(f"there is no format {format!r}")
    return request


_FIELDS = {}


def fields_of(hint):
    """The types of a TypedDict's or a class's fields."""
    if hint not in _FIELDS and is_class(hint):
        # Pydantic may have left the types of a class for later.
        hint.model_rebuild()
        _FIELDS[hint] = {name: field.annotation for name, field in hint.model_fields.items()}
    elif hint not in _FIELDS:
        _FIELDS[hint] = extensions.get_type_hints(hint, include_extras=False)
    return _FIELDS[hint]


_REQUIRED = {}


def required_of(hint):
    if hint not in _REQUIRED and is_class(hint):
        _REQUIRED[hint] = [name for name, field in hint.model_fields.items() if field.is_required()]
    elif hint not in _REQUIRED:
        # `__required_keys__` does not see a `Required` inside of annotations that are text, as these are.
        marks = extensions.get_type_hints(hint, include_extras=True).items()
        marks = {name: extensions.get_origin(kind) for name, kind in marks}
        asked = {name for name, mark in marks.items() if mark is extensions.Required}
        spared = {name for name, mark in marks.items() if mark is extensions.NotRequired}
        _REQUIRED[hint] = sorted((hint.__required_keys__ | asked) - spared)
    return _REQUIRED[hint]


def is_class(hint):
    return isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def is_object(hint):
    return extensions.is_typeddict(hint) or is_class(hint)


def check(hint, value, path):
    """What is wrong with a value, as (path, problem)."""
    if isinstance(hint, extensions.TypeAliasType):
        return check(hint.__value__, value, path)
    if hint in (typing.Any, object):
        return []
    if hint in (None, type(None)):
        return [] if value is None else [(path, "must be null")]
    if is_object(hint):
        return check_object(hint, value, path)
    origin, arguments = extensions.get_origin(hint), extensions.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return check_union(arguments, value, path)
    if origin is extensions.Annotated:
        return check(arguments[0], value, path)
    if origin in (typing.Literal, extensions.Literal):
        same = any(type(value) is type(one) and value == one for one in arguments)
        return [] if same else [(path, f"{value!r} is none of {', '.join(map(repr, arguments))}")]
    if origin in (list, Iterable, Sequence):
        if not isinstance(value, list):
            return [(path, "must be a list")]
        return [found for n, item in enumerate(value) for found in check(arguments[0], item, f"{path}[{n}]")]
    if origin in (dict, Mapping):
        if not isinstance(value, dict):
            return [(path, "must be an object")]
        return [found for key, item in value.items() for found in check(arguments[1], item, f"{path}.{key}")]
    # The class of a generic type that JSON does not have, such as `IO[bytes]`.
    return check_scalar(origin or hint, value, path)


def check_scalar(hint, value, path):
    if hint is float and type(value) in (int, float):
        return []
    if hint in (str, int, bool, float):
        return [] if type(value) is hint else [(path, f"must be {hint.__name__}, is {type(value).__name__}")]
    if isinstance(hint, type):
        # Files and bytes: nothing that JSON has.
        return [(path, f"must be {hint.__name__}")]
    raise TypeError(f"{path}: the type {hint!r} is not known to this check")


def check_object(hint, value, path):
    if not isinstance(value, dict):
        return [(path, "must be an object")]
    fields = fields_of(hint)
    found = [(f"{path}.{key}", f"{hint.__name__} has no such field") for key in value if key not in fields]
    found += [(f"{path}.{key}", f"{hint.__name__} requires it") for key in required_of(hint) if key not in value]
    for key, item in value.items():
        if key in fields:
            found += check(fields[key], item, f"{path}.{key}")
    return found


def check_union(members, value, path):
    """The value must fit one member. If it fits none, the problems are those of the member that was meant: the one that
    its tags name, or the one that is a list if the value is a list."""
    members = list(flat(members))
    outcomes = [(member, check(member, value, path)) for member in members]
    if any(not found for _, found in outcomes):
        return []
    meant = outcomes
    if isinstance(value, dict):
        objects = [one for one in outcomes if is_object(one[0])]
        meant = [one for one in objects if tags_fit(one[0], value)]
        if objects and not meant:
            tags = ", ".join(f"{key} {value[key]!r}" for key in TAGS if key in value)
            return [(path, f"nothing that may stand here has the {tags or 'fields'}")]
    elif isinstance(value, list):
        meant = [one for one in outcomes if extensions.get_origin(one[0]) in (list, Iterable, Sequence)]
    return min((found for _, found in meant or outcomes), key=len)


def flat(members):
    for member in members:
        if isinstance(member, extensions.TypeAliasType):
            member = member.__value__
        if extensions.get_origin(member) in (typing.Union, types.UnionType):
            yield from flat(extensions.get_args(member))
        else:
            yield member


# Fields that tell the members of a union apart.
TAGS = ("type", "role")


def tags_fit(hint, value):
    """Whether no field with a fixed value says that another member is meant."""
    fields = fields_of(hint)
    for key in TAGS:
        kinds = list(flat([fields[key]])) if key in fields else []
        fixed = [word for kind in kinds if extensions.get_origin(kind) is typing.Literal for word in kind.__args__]
        if fixed and value.get(key, fixed[0]) not in fixed:
            return False
    return True


def gemini_problems(body):
    """The fields of a request as google-genai writes it (`_GenerateContentParameters_to_mldev`), by its models."""
    from google.genai import types as models

    fields = {
        "contents": list[models.Content],
        "systemInstruction": models.Content,
        "tools": list[models.Tool],
        "toolConfig": models.ToolConfig,
        "generationConfig": models.GenerationConfig,
        "safetySettings": list[models.SafetySetting],
        "cachedContent": str,
        "serviceTier": models.ServiceTier,
    }
    found = [f"{key}: a request has no such field" for key in body if key not in fields]
    if "contents" not in body:
        found.append("contents: a request requires it")
    for key, hint in fields.items():
        if key in body:
            found += [f"{key}{problem}" for problem in gemini_value(pydantic.TypeAdapter(hint), body[key])]
    return found


def gemini_value(adapter, value):
    with warnings.catch_warnings(record=True) as warned:
        # A word that an enum does not have is only warned of.
        warnings.simplefilter("always")
        try:
            read = adapter.validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            return [".".join(["", *map(str, one["loc"])]) + f": {one['msg']}" for one in errors]
    unknown = [f": {warning.message}" for warning in warned]
    # The models also accept names with underscores and words in lower case, which the server need not.
    written = adapter.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
    return unknown + [f"{path}: is written as {theirs}" for path, theirs in differences(value, written)]


def differences(ours, theirs, path=""):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            if key not in ours or key not in theirs:
                yield f"{path}.{key}", json.dumps(theirs.get(key))
            else:
                yield from differences(ours[key], theirs[key], f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for n, (our, their) in enumerate(zip(ours, theirs)):
            yield from differences(our, their, f"{path}[{n}]")
    elif ours != theirs and not same_base64(ours, theirs):
        yield path, json.dumps(theirs)


def same_base64(ours, theirs):
    """Bytes are written with the alphabet for URLs."""
    if not (isinstance(ours, str) and isinstance(theirs, str)):
        return False
    return theirs.translate(str.maketrans("-_", "+/")) == ours

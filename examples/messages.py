"""Messages of other services as messages of chat templates, which normxlogit reads: copy what you need.

`explainer.cite(messages=anthropic(request["messages"], request["system"]))`. OpenAI's chat completions need none of
this: their messages have the form already, also as the objects that the client returns, but for pictures and sounds,
which `medium` reads.
"""

import json


def call(name, arguments, call_id=""):
    """A call of a tool."""
    return {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}


def message(role, texts=(), **fields):
    """A message of several texts, with those of the other fields that are not empty."""
    return {"role": role, "content": "\n".join(filter(None, texts)), **{k: v for k, v in fields.items() if v}}


def medium(part):
    """A part of a message that is a picture or a sound, as the clients of OpenAI, Anthropic, Google and AWS write it."""
    kind = part.get("type") or part.get("block_type")
    inline = part.get("inlineData") or part.get("inline_data") or (part if kind == "media" else None)
    if inline is not None:  # Gemini
        kind = (inline.get("mimeType") or inline["mime_type"]).partition("/")[0]
        return {"type": kind, "base64" if isinstance(inline["data"], str) else "bytes": inline["data"]}
    if kind in ("image_url", "input_image", "computer_screenshot"):  # OpenAI
        url = part["image_url"]
        return {"type": "image", "url": url if isinstance(url, str) else url["url"]}
    if kind == "audio_url":
        return {"type": "audio", "url": part["audio_url"]["url"]}
    if kind == "input_audio":
        return {"type": "audio", "base64": part["input_audio"]["data"]}
    source = part.get("source") or (part.get("image") if isinstance(part.get("image"), dict) else None)
    if source is not None:  # Anthropic, Bedrock
        source = source.get("source", source)
        key = "base64" if "data" in source else "bytes" if "bytes" in source else "url"
        return {"type": "image", key: source.get("data") or source[key]}
    return {"type": "image", "image": part["image"]} if kind == "image" and part.get("image") is not None else part


def responses(items, instructions=None):
    """Input and output items of OpenAI's responses, in one list."""
    messages = [message("system", [instructions])] if instructions else []
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            messages += [message("assistant", tool_calls=[call(item["name"], item["arguments"], item["call_id"])])]
        elif kind == "function_call_output":
            messages += [message("tool", [item["output"]], tool_call_id=item["call_id"])]
        elif kind == "reasoning":
            messages += [message("assistant", reasoning_content="\n".join(part["text"] for part in item["summary"]))]
        elif kind == "message":
            said = item["content"]
            messages += [message(item["role"], [said] if isinstance(said, str) else [part["text"] for part in said])]
    return messages


def anthropic(given, system=None):
    """Anthropic's messages, with blocks."""
    messages = [message("system", [system])] if system else []
    for one in given:
        blocks = one["content"]
        of = {"text": [], "thinking": [], "tool_use": [], "tool_result": []}
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            of.setdefault(block["type"], []).append(block)
        for result in of["tool_result"]:
            said = result["content"]
            said = [said] if isinstance(said, str) else [part["text"] for part in said]
            messages += [message("tool", said, tool_call_id=result["tool_use_id"])]
        calls = [call(block["name"], block["input"], block["id"]) for block in of["tool_use"]]
        thought = "\n".join(block["thinking"] for block in of["thinking"])
        if of["text"] or calls or thought:
            texts = [block["text"] for block in of["text"]]
            messages += [message(one["role"], texts, reasoning_content=thought, tool_calls=calls)]
    return messages


def gemini(contents, system=None):
    """Gemini's contents, with parts."""
    messages = [message("system", [part["text"] for part in system["parts"]])] if system else []
    for one in contents:
        parts, role = one["parts"], "assistant" if one.get("role") == "model" else "user"
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        messages += [message("tool", [json.dumps(r["response"])], name=r["name"]) for r in results]
        texts = [part["text"] for part in parts if "text" in part and not part.get("thought")]
        thoughts = [part["text"] for part in parts if part.get("thought")]
        calls = [
            call(part["functionCall"]["name"], part["functionCall"]["args"]) for part in parts if "functionCall" in part
        ]
        if texts or thoughts or calls:
            messages += [message(role, texts, reasoning_content="\n".join(thoughts), tool_calls=calls)]
    return messages


def langchain(given):
    """Messages of LangChain and LangGraph, as objects or as `messages_to_dict` and `dumpd` write them."""
    roles, messages = {"human": "user", "ai": "assistant"}, []
    for one in given:
        one = one if isinstance(one, dict) else one.model_dump()
        one = one.get("data") or one.get("kwargs") or one
        calls = [call(c["name"], c["args"], c["id"]) for c in one.get("tool_calls") or ()]
        said, about = one["content"], one.get("additional_kwargs") or {}
        texts = [said] if isinstance(said, str) else [part.get("text") for part in said]
        fields = {key: one.get(key) for key in ("name", "tool_call_id")} | {"tool_calls": calls}
        role = roles.get(one["type"], one["type"])
        messages += [message(role, texts, reasoning_content=about.get("reasoning_content"), **fields)]
    return messages


def llama_index(given):
    """Messages of LlamaIndex, as `model_dump` writes them."""
    messages = []
    for one in given:
        about, blocks = one.get("additional_kwargs") or {}, one["blocks"]
        calls = [
            call(block["tool_name"], block["tool_kwargs"], block["tool_call_id"])
            for block in blocks
            if block["block_type"] == "tool_call"
        ]
        texts = [block.get("text") for block in blocks if block["block_type"] == "text"]
        fields = {key: about.get(key) for key in ("name", "tool_call_id")}
        messages += [message(one["role"], texts, tool_calls=about.get("tool_calls") or calls, **fields)]
    return messages


def haystack(given):
    """Messages of Haystack, as `to_dict` writes them."""
    messages = []
    for one in given:
        for result in [part["tool_call_result"] for part in one["content"] if "tool_call_result" in part]:
            origin = result["origin"]
            messages += [message("tool", [result["result"]], name=origin["tool_name"], tool_call_id=origin["id"])]
        calls = [part["tool_call"] for part in one["content"] if "tool_call" in part]
        texts = [part["text"] for part in one["content"] if "text" in part]
        if texts or calls:
            calls = [call(c["tool_name"], c["arguments"], c["id"]) for c in calls]
            messages += [message(one["role"], texts, tool_calls=calls)]
    return messages


def share_gpt(given):
    """Messages of data sets with "from" and "value"."""
    roles = {"human": "user", "gpt": "assistant", "observation": "tool", "function_call": "assistant"}
    return [message(roles.get(one["from"], one["from"]), [one["value"]]) for one in given]


def open_telemetry(attributes):
    """The attributes of a span with the messages of a call of a model."""
    read = {
        key: json.loads(value) if isinstance(value, str) else value
        for key, value in attributes.items()
        if "messages" in key
    }
    messages = []
    for one in [*read["gen_ai.input.messages"], *read["gen_ai.output.messages"]]:
        parts = one["parts"]
        for part in [part for part in parts if part["type"] == "tool_call_response"]:
            messages += [message("tool", [json.dumps(part["response"])], tool_call_id=part["id"])]
        texts = [part["content"] for part in parts if part["type"] == "text"]
        thoughts = [part["content"] for part in parts if part["type"] == "reasoning"]
        calls = [call(part["name"], part["arguments"], part["id"]) for part in parts if part["type"] == "tool_call"]
        if texts or thoughts or calls:
            messages += [message(one["role"], texts, reasoning_content="\n".join(thoughts), tool_calls=calls)]
    return messages


def langfuse(trace):
    """The longest call of a model in a trace of Langfuse, if its messages are OpenAI's."""
    calls = [one for one in trace["observations"] if one["type"] == "GENERATION"]
    requests = [one["input"]["messages"] if isinstance(one["input"], dict) else one["input"] for one in calls]
    longest = max(range(len(calls)), key=lambda place: len(requests[place]))
    return [*requests[longest], calls[longest]["output"]]


def langsmith(run):
    """The last call of a model in a run of LangSmith."""
    runs = [one for child in run.get("child_runs", []) for one in [child, *child.get("child_runs", [])]]
    last = [one for one in [run, *runs] if one["run_type"] == "llm"][-1]
    return langchain([*last["inputs"]["messages"][0], last["outputs"]["generations"][0][0]["message"]])

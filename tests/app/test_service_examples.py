import asyncio
from pathlib import Path

import pytest

import normxlogit.explainer
from tests.test_docs import STAND_INS

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

EXAMPLES = Path(__file__).parents[2] / "examples"

TEXTS = [
    f"the movie is {word} ." for word in ("good", "bad", "great", "awful", "mediocre", "never good", "a film", "here")
]


def names_of(example):
    file, names = EXAMPLES / example, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(normxlogit.explainer, "load", lambda name, **_: STAND_INS[name or "your-org/your-model"]())
        exec(compile(file.read_text(encoding="utf-8"), file, "exec"), names)
    return names


def run(service, scenario):
    async def running():
        app = service["app"]
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://service") as client,
        ):
            return await scenario(client)

    return asyncio.run(running())


def test_concurrent_requests_are_explained_in_few_batches_with_the_same_scores():
    service, calls = names_of("service.py"), []
    explainer = service["explainer"]
    service["explainer"] = lambda texts: calls.append(len(texts)) or explainer(texts)

    async def scenario(client):
        return await asyncio.gather(*(client.post("/explain", json={"text": text}) for text in TEXTS * 4))

    answers = run(service, scenario)
    assert {answer.status_code for answer in answers} == {200}
    assert sum(calls) == len(answers)
    assert len(calls) <= 5
    assert max(calls) == service["AT_ONCE"]
    for text, answer in zip(TEXTS * 4, answers, strict=True):
        alone = explainer(text)
        state = answer.json()
        assert state["label"] == alone.prediction.label
        assert [word["text"] for word in state["words"]] == [word.text for word in alone.words()]
        scores = [word.score for word in alone.words()]
        assert [word["score"] for word in state["words"]] == pytest.approx(scores, rel=1e-4, abs=1e-5)


def test_what_cannot_be_explained_is_one_line_and_the_service_goes_on():
    service = names_of("service.py")
    long_text = "the cat " * 1000

    async def chunks():
        yield b'{"text": "the cat"}'

    async def scenario(client):
        bodies = [{"text": ""}, {"text": "x" * 20_001}, {"text": 5}, {"txt": "x"}, ["x"]]
        answers = [await client.post("/explain", json=body) for body in bodies]
        answers += [await client.post("/explain", content=content) for content in (b"nonsense", b'{"text": "\\ud800"}')]
        large = await client.post("/explain", content=b" " * 250_001)
        chunked = await client.post("/explain", content=chunks())
        good = await client.post("/explain", json={"text": long_text})
        return answers, (large, chunked), good, await client.get("/health")

    refused, oversized, good, health = run(service, scenario)
    assert {answer.status_code for answer in refused} == {422}
    assert [answer.status_code for answer in oversized] == [413, 411]
    for answer in (*refused, *oversized):
        detail = answer.json()["detail"]
        assert "input 0" not in detail, "the caller sent a text, and no list of inputs"
        assert "\n" not in detail
        assert len(detail) < 200, "the text is not sent back"
    assert good.json()["notes"] == list(service["explainer"](long_text).notes) != []
    assert health.json() == {"waiting": 0}


def test_a_text_that_breaks_a_batch_fails_alone():
    service = names_of("service.py")
    explainer = service["explainer"]

    def breaks(texts):
        if "break" in texts:
            raise RuntimeError("device lost")
        return explainer(texts)

    service["explainer"] = breaks

    async def scenario(client):
        texts = ("the cat", "break", "the cat")
        return await asyncio.gather(*(client.post("/explain", json={"text": text}) for text in texts))

    assert [answer.status_code for answer in run(service, scenario)] == [200, 500, 200]


def test_a_full_queue_is_refused():
    service = names_of("service.py")
    count = service["WAITING"] + service["AT_ONCE"] + 8

    async def scenario(client):
        return await asyncio.gather(*(client.post("/explain", json={"text": "the cat"}) for _ in range(count)))

    codes = [answer.status_code for answer in run(service, scenario)]
    assert set(codes) == {200, 503}
    assert codes.count(200) >= service["WAITING"]


def test_conversations_are_cited_one_at_a_time():
    messages = [
        {"role": "user", "content": "is the cat here ?"},
        {"role": "tool", "name": "search", "content": "the cat is here . the keys are here ."},
        {"role": "assistant", "content": "the cat is here ."},
    ]

    async def scenario(client):
        both = await asyncio.gather(*(client.post("/cite", json=messages) for _ in range(2)))
        return [*both, await client.post("/cite", json=messages[2:])]

    answer, busy, bad = run(names_of("citing_service.py"), scenario)
    assert (answer.status_code, busy.status_code, bad.status_code) == (200, 503, 422)
    assert "the first message" in bad.json()["detail"]
    state = answer.json()
    assert state["answer"] == "the cat is here ."
    assert state["sentences"][0]["verdict"]

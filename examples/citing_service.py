"""A web service that cites answers, finished or while they are written: uvicorn citing_service:app --port 8000."""

import asyncio
import json
from queue import SimpleQueue

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from normxlogit import Explainer, NormXLogitError

reader = Explainer.from_pretrained("a-causal-language-model")
turn = asyncio.Semaphore(1)
app = FastAPI()


@app.post("/cite")
async def cite(messages: list[dict]):
    if turn.locked():
        raise HTTPException(503, "busy; try again", {"Retry-After": "5"})
    async with turn:
        try:
            cited = await asyncio.to_thread(reader.cite, messages=messages, verify=2)
        except NormXLogitError as error:
            raise HTTPException(422, str(error)) from None
    state = cited.to_dict()
    return {name: state[name] for name in ("answer", "sentences", "citations")}


async def write(messages):  # put your own here: what writes the answer, piece by piece
    for word in ["The", "pool", "was", "opened", "in", "1974.", "It", "has", "a", "roof."]:
        yield word + " "


@app.post("/stream")
async def stream(messages: list[dict]):
    if turn.locked():
        raise HTTPException(503, "busy; try again", {"Retry-After": "5"})
    pieces, events, loop = SimpleQueue(), asyncio.Queue(), asyncio.get_running_loop()

    def mark():  # in a thread
        for cited in reader.cite_stream(iter(pieces.get, None), messages=messages):
            sources = [source.name for source in cited.citations()]
            event = {"sentence": cited.sentences[0], "verdict": cited.support[0].verdict, "sources": sources}
            loop.call_soon_threadsafe(events.put_nowait, event)

    async def answer():
        marking = asyncio.create_task(asyncio.to_thread(mark))
        try:
            async for piece in write(messages):
                pieces.put(piece)
                events.put_nowait({"text": piece})
        finally:
            pieces.put(None)
            try:
                await marking
            except NormXLogitError as error:
                events.put_nowait({"error": str(error)})
            finally:
                events.put_nowait(None)
                turn.release()

    await turn.acquire()
    task = asyncio.create_task(answer())  # goes on to its end where the client has gone

    async def lines():
        while (event := await events.get()) is not None:
            yield json.dumps(event) + "\n"
        await task

    return StreamingResponse(lines(), media_type="application/x-ndjson")

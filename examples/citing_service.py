"""A web service that cites answers: uvicorn citing_service:app --port 8000."""

import asyncio

from fastapi import FastAPI, HTTPException

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

"""A web service that explains texts: MODEL=FOLDER uvicorn service:app --port 8000 --workers 1."""

import asyncio
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from normxlogit import Explainer, NormXLogitError

WAITING, AT_ONCE, SECONDS = 64, 16, 30.0  # requests in the queue, texts in a batch, and how long one may take
CHARACTERS, BYTES = 20_000, 250_000  # of a text and of a request, in which JSON writes a character in up to 12 bytes
explainer = Explainer.from_pretrained(os.environ.get("MODEL"))  # by default the small sentiment model


class Question(BaseModel):
    text: str = Field(max_length=CHARACTERS)


async def explain_each(texts):
    try:
        return list(await asyncio.to_thread(explainer, texts))
    except Exception as error:
        if len(texts) == 1:
            return [error]
        return [result for text in texts for result in await explain_each([text])]  # a bad text fails alone


async def work(queue):
    while True:
        jobs = [await queue.get()]
        while len(jobs) < AT_ONCE and not queue.empty():
            jobs.append(queue.get_nowait())
        jobs = [(text, future) for text, future in jobs if not future.done()]  # without those that were given up
        results = await explain_each([text for text, _ in jobs]) if jobs else []
        for (_, future), result in zip(jobs, results, strict=True):
            if not future.done():
                future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)


@asynccontextmanager
async def lifespan(app):
    app.state.queue = asyncio.Queue(WAITING)
    app.state.worker = asyncio.create_task(work(app.state.queue))
    yield
    app.state.worker.cancel()


app = FastAPI(lifespan=lifespan)


@app.middleware("http")
async def refuse_large(request: Request, call_next):
    if "transfer-encoding" in request.headers:
        return JSONResponse({"detail": "send the request with its length"}, 411)
    if int(request.headers.get("content-length", 0)) > BYTES:
        return JSONResponse({"detail": f"a request may have {BYTES:,} bytes"}, 413)
    return await call_next(request)


@app.exception_handler(RequestValidationError)
async def refuse_invalid(request: Request, error: RequestValidationError):
    first = error.errors()[0]  # without the text itself, which FastAPI would send back
    return JSONResponse({"detail": f"{'.'.join(map(str, first['loc']))}: {first['msg']}"}, 422)


@app.post("/explain")
async def explain(question: Question):
    future = asyncio.get_running_loop().create_future()
    try:
        app.state.queue.put_nowait((question.text, future))
        result = await asyncio.wait_for(future, SECONDS)
    except asyncio.QueueFull:
        raise HTTPException(503, "too many requests are waiting; try again", {"Retry-After": "1"}) from None
    except asyncio.TimeoutError:
        raise HTTPException(504, f"not explained within {SECONDS:g} seconds") from None
    except NormXLogitError as error:
        raise HTTPException(422, str(error).replace("input 0", "the text")) from None  # which failed alone
    words = [{"text": word.text, "score": float(word.score)} for word in result.words()]
    prediction = result.prediction
    return {"label": prediction.label, "probability": prediction.probability, "words": words, "notes": result.notes}


@app.get("/health")
async def health():
    if app.state.worker.done():
        raise HTTPException(500, "the worker has stopped")
    return {"waiting": app.state.queue.qsize()}

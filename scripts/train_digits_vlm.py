"""Train a tiny LLaVA on pictures of digits over photographs, and write the questions whose evidence is known.

    python scripts/train_digits_vlm.py out/ [--steps 4000]

makes `out/model`, `out/train.jsonl` and `out/heldout.jsonl` with their pictures, for `python -m benchmarks pointing`. A
picture is a piece of a photograph with three or four digits, one of them larger, and clutter where there is no fourth.
Digits and photographs come with scikit-learn; those of the held-out pictures are not among those that are trained on.
"""

import argparse
import itertools
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

CELL, ROWS = 16, 2
"""Pixels of a cell, and cells along a side."""

PIXELS, PATCH = CELL * ROWS, 8

VERTICAL, HORIZONTAL = ("top", "bottom"), ("left", "right")

RELATIONS = {"right of": (0, 1), "left of": (0, -1), "below": (1, 0), "above": (-1, 0)}

LEVELS = ("position", "relation", "largest")

QUESTIONS = 6
"""Most questions of a picture that the model is trained on at once."""

EASY = 0.15
"""Share of the training in which only positions are asked for."""

KNOWN_DIGITS = 1400
"""Digits that the model is trained on; the others are held out."""

WIDTH, LAYERS = 96, 3


class Question(NamedTuple):
    """A question with its answer and the cells that it rests on."""

    level: str  # one of `LEVELS`
    text: str
    answer: str  # a digit
    cells: tuple[tuple[int, int], ...]  # (row, column) each


class Pictures:
    """Pictures with digits, of training or held out."""

    def __init__(self, seed: int, *, heldout: bool) -> None:
        self.random = np.random.default_rng(seed)
        digits = load_digits()
        part = slice(KNOWN_DIGITS, None) if heldout else slice(0, KNOWN_DIGITS)
        images, labels = digits.images[part] / 16.0, digits.target[part]
        self.digits = [images[labels == label] for label in range(10)]
        half = slice(320, None) if heldout else slice(0, 320)
        self.photographs = [Image.fromarray(image[:, half]) for image in load_sample_images().images]

    def draw(self) -> tuple[np.ndarray, list[Question]]:
        """Return a picture, (P, P, 3), and its questions."""
        random = self.random
        size = int(random.integers(48, 200))
        photograph = self.photographs[random.integers(len(self.photographs))]
        x, y = (int(random.integers(0, side - size)) for side in photograph.size)
        background = photograph.crop((x, y, x + size, y + size)).resize((PIXELS, PIXELS), Image.Resampling.BILINEAR)
        picture = np.asarray(background, np.float32) * 0.55
        order = [(int(cell) // ROWS, int(cell) % ROWS) for cell in random.permutation(ROWS * ROWS)]
        values = random.permutation(10)[: random.integers(3, 5)].tolist()
        placed = dict(zip(order, values, strict=False))  # three or four digits, by (row, column)
        largest = order[0]
        for cell, value in placed.items():
            height = 16 if cell == largest else int(random.integers(9, 13))
            self._draw_digit(picture, cell, self.digits[value], height)
        for cell in order[len(values) :]:
            self._draw_clutter(picture, cell)
        return np.clip(picture, 0, 255).astype(np.uint8), self._questions(placed, largest)

    def _draw_digit(self, picture: np.ndarray, cell: tuple[int, int], images: np.ndarray, height: int) -> None:
        """Draw one of several images of a digit, (n, 8, 8), somewhere in a cell of a picture, which is changed."""
        image = Image.fromarray((255 * images[self.random.integers(len(images))]).astype(np.uint8))
        alpha = np.asarray(image.resize((height, height), Image.Resampling.BILINEAR), np.float32)[..., None] / 255
        dy, dx = self.random.integers(0, CELL - height + 1, 2)
        top, left = cell[0] * CELL + dy, cell[1] * CELL + dx
        colour = self.random.uniform(170, 255, 3)
        area = picture[top : top + height, left : left + height]
        area += alpha * (colour - area)

    def _draw_clutter(self, picture: np.ndarray, cell: tuple[int, int]) -> None:
        """Draw the quarters of a digit in another order."""
        images = self.digits[self.random.integers(10)]
        image = images[self.random.integers(len(images))]
        quarters = [image[y : y + 4, x : x + 4] for y in (0, 4) for x in (0, 4)]
        a, b, c, d = (quarters[i] for i in self.random.permutation(4))
        self._draw_digit(picture, cell, np.block([[a, b], [c, d]])[None], int(self.random.integers(8, 12)))

    def _questions(self, placed: dict[tuple[int, int], int], largest: tuple[int, int]) -> list[Question]:
        """Return the questions of a picture, in random order.

        Args:
            placed: Its digits, by (row, column).
            largest: The cell of the largest.
        """
        questions = [
            Question("position", f"which digit is {VERTICAL[y]}-{HORIZONTAL[x]}", str(value), ((y, x),))
            for (y, x), value in placed.items()
        ]
        questions += [
            Question("relation", f"which digit is {name} the {value}", str(placed[other]), (other, (y, x)))
            for (y, x), value in placed.items()
            for name, (dy, dx) in RELATIONS.items()
            if (other := (y + dy, x + dx)) in placed
        ]
        questions.append(Question("largest", "which digit is the largest", str(placed[largest]), (largest,)))
        return [questions[i] for i in self.random.permutation(len(questions))]


def processor() -> LlavaProcessor:
    """Return a tokenizer of whole words and the picture's pixels, as one processor."""
    words = ["<pad>", "<unk>", "<image>", "</s>", "which", "digit", "is", "the", "?", "largest", "of", "above", "below"]
    words += ["left", "right", *(f"{v}-{h}" for v in VERTICAL for h in HORIZONTAL), *map(str, range(10))]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="</s>",
        extra_special_tokens={"image_token": "<image>"},
        padding_side="left",
    )
    fast.add_special_tokens({"additional_special_tokens": ["<image>"]})
    image_processor = CLIPImageProcessorPil(
        size={"shortest_edge": PIXELS}, crop_size={"height": PIXELS, "width": PIXELS}
    )
    template = (
        "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }} {% else %}"
        "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image> {% else %}{{ part['text'] }} "
        "{% endif %}{% endfor %}{% endif %}{% endfor %}"
    )
    return LlavaProcessor(
        image_processor,
        fast,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        chat_template=template,
        num_additional_image_tokens=1,
    )


def network(llava: LlavaProcessor) -> LlavaForConditionalGeneration:
    """Return a LLaVA of half a million weights."""
    sizes: dict[str, Any] = {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
    }
    vision = CLIPVisionConfig(image_size=PIXELS, patch_size=PATCH, projection_dim=WIDTH, **sizes)
    tokenizer = llava.tokenizer
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
        **sizes,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        image_seq_length=(PIXELS // PATCH) ** 2,
    )
    model = LlavaForConditionalGeneration(config)
    for name, weight in model.named_parameters():  # the usual deviations are for wide models
        if "embed_tokens" in name or "position_embedding" in name:
            torch.nn.init.normal_(weight, std=0.5)
        elif weight.ndim > 1:
            torch.nn.init.xavier_uniform_(weight.flatten(1))
    model.generation_config.max_new_tokens = 1
    return model


class Reader:
    """Pictures and questions as tensors; the processor's arithmetic, for many at once."""

    def __init__(self, llava: LlavaProcessor) -> None:
        self.tokenizer = llava.tokenizer
        self.mean = np.array(llava.image_processor.image_mean, np.float32)
        self.deviation = np.array(llava.image_processor.image_std, np.float32)

    def pixels(self, pictures: list[np.ndarray]) -> torch.Tensor:
        """Return what the model reads of pictures, (B, 3, P, P)."""
        values = (np.stack(pictures).astype(np.float32) / 255 - self.mean) / self.deviation
        return torch.from_numpy(values.transpose(0, 3, 1, 2).copy())

    def words(self, questions: list[Question]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return questions as token ids and a mask, padded on the left, (N, T) each, and the answers' ids, (N,)."""
        rows = [self.tokenizer.convert_tokens_to_ids(question.text.split()) for question in questions]
        longest = max(map(len, rows))
        ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
        answer_ids = self.tokenizer.convert_tokens_to_ids([question.answer for question in questions])
        return ids, mask, torch.tensor(answer_ids)


def answers(model: Any, reader: Reader, pictures: list[np.ndarray], questions: list[list[Question]]) -> tuple[Any, Any]:
    """Return the logits of the answers, (N, V), and the ids of the right ones, (N,); each picture is encoded once.

    Args:
        model: The model.
        reader: Makes tensors of pictures and questions.
        pictures: B pictures, (P, P, 3) each.
        questions: The questions of each, N in all.
    """
    states = model.model.get_image_features(pixel_values=reader.pixels(pictures)).pooler_output
    states = torch.stack(list(states))  # (B, P, H)
    ids, question_mask, answer_ids = reader.words(list(itertools.chain.from_iterable(questions)))
    picture_indices = [index for index, of_picture in enumerate(questions) for _ in of_picture]  # (N,)
    states = states[picture_indices]  # (N, P, H)
    mask = torch.cat([torch.ones(states.shape[:2], dtype=torch.long), question_mask], 1)
    embedded = torch.cat([states, model.get_input_embeddings()(ids)], 1)
    output = model.model.language_model(
        inputs_embeds=embedded, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0)
    )
    return model.lm_head(output.last_hidden_state[:, -1]), answer_ids


def train(model: Any, reader: Reader, steps: int, batch: int, rate: float) -> None:
    """Train for a number of steps on several questions of each picture; the learning rate falls to zero."""
    pictures = Pictures(0, heldout=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
    start = time.perf_counter()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        images, questions = zip(*(pictures.draw() for _ in range(batch)), strict=True)
        chosen = [_chosen(of_picture, easy=step < EASY * steps) for of_picture in questions]
        logits, answer_ids = answers(model, reader, list(images), chosen)
        loss = torch.nn.functional.cross_entropy(logits, answer_ids)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99:
            known = accuracy(model, reader, Pictures(1, heldout=True), 40)
            seconds = time.perf_counter() - start
            print(f"step {step + 1}, {seconds:.0f} s, loss {loss.item():.3f}; held out: {known}", flush=True)


def _chosen(questions: list[Question], *, easy: bool) -> list[Question]:
    """Return some of a picture's questions: of positions alone, or most of them of the kind that is learned last."""
    if easy:
        return [question for question in questions if question.level == "position"]
    hard = [question for question in questions if question.level == "relation"][: QUESTIONS - 2]
    return hard + [question for question in questions if question.level != "relation"][: QUESTIONS - len(hard)]


@torch.no_grad()
def accuracy(model: Any, reader: Reader, pictures: Pictures, count: int) -> str:
    """Return the share of right answers for each level, each question asked alone."""
    images, questions = zip(*(pictures.draw() for _ in range(count)), strict=True)
    logits, answer_ids = answers(model, reader, list(images), list(questions))
    is_right = (logits.argmax(-1) == answer_ids).tolist()
    right_by_level: dict[str, list[bool]] = {level: [] for level in LEVELS}
    for question, right in zip(itertools.chain.from_iterable(questions), is_right, strict=True):
        right_by_level[question.level].append(right)
    return ", ".join(f"{level} {np.mean(right):.3f}" for level, right in right_by_level.items())


def write(folder: Path, name: str, pictures: Pictures, count: int) -> None:
    """Write pictures, and their questions as JSON lines."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(count):
        picture, questions = pictures.draw()
        path = f"{name}/{index:04}.png"
        Image.fromarray(picture).save(folder / path)
        one_of_each_level = {question.level: question for question in questions}
        for question in one_of_each_level.values():
            boxes = [[x * CELL, y * CELL, (x + 1) * CELL, (y + 1) * CELL] for y, x in question.cells]
            row = {"image": path, "question": question.text, "answer": question.answer, "boxes": boxes}
            lines.append(json.dumps(row | {"level": question.level}))
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Train, and write what `python -m benchmarks pointing` reads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--pictures", type=int, default=100, help="of each part, for the questions")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    llava = processor()
    model = network(llava)
    print(f"{sum(weight.numel() for weight in model.parameters()):,} weights")
    train(model, Reader(llava), arguments.steps, arguments.batch, arguments.rate)
    print("held out:", accuracy(model, Reader(llava), Pictures(2, heldout=True), 300))
    model.eval().save_pretrained(arguments.folder / "model")
    llava.save_pretrained(arguments.folder / "model")
    write(arguments.folder, "train", Pictures(3, heldout=False), arguments.pictures)
    write(arguments.folder, "heldout", Pictures(4, heldout=True), arguments.pictures)


if __name__ == "__main__":
    main()

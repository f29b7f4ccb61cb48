"""What is explained: the predicted label, a chosen one, a token, a contrast, or all labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from .attribution import Prediction, TargetInfo
from .errors import TargetError
from .modeling.encoding import readable_tokens
from .modeling.forward import ForwardPass, TaskModel
from .modeling.tasks import Task

__all__ = ["Choice", "Target", "TargetSpec", "answers", "index_of", "name_of", "predictions", "resolve"]

Choice = str | int
"""A label name, a token string, or an index."""

TargetSpec = Choice | Sequence[Choice]
"""What a caller may ask for: "predicted", "all", a choice, or several choices."""


@dataclass(frozen=True)
class Target:
    """A resolved target for a batch.

    Attributes:
        ids: Classes or vocabulary entries explained, (B, K).
        contrast: The entry subtracted, (B,), None without contrast.
        positions: Position of the prediction explained, (B,), or (B, 2) for start and end of an answer; None for
            whole-text heads.
        labelled: Whether results have a label axis.
        task: The model's task.
        names: Label or token string of each id, (B, K), and of the contrast.
    """

    ids: Tensor
    contrast: Tensor | None
    positions: Tensor | None
    labelled: bool
    task: Task
    names: tuple[tuple[str, ...], ...]
    contrast_name: str | None

    def read(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Take the explained quantity out of logits: the target's logit, less the contrast's if there is one.

        Args:
            logits: (N, C).
            texts: Which text of the batch each row belongs to, (N,); None when N is B.

        Returns:
            (N, K).
        """
        ids = self.ids if texts is None else self.ids[texts]  # (N, K)
        chosen = logits.gather(1, ids)  # (N, K)
        if self.contrast is None:
            return chosen
        contrast = self.contrast if texts is None else self.contrast[texts]  # (N,)
        return chosen - logits.gather(1, contrast[:, None])  # (N, K)

    def rows(self) -> tuple[Tensor, "Target"]:
        """The vocabulary rows that `read` needs, (R,), and this target counted in them."""
        parts = [self.ids.flatten()] + ([] if self.contrast is None else [self.contrast])
        rows, places = torch.cat(parts).unique(return_inverse=True)
        count = self.ids.numel()
        ids = places[:count].view_as(self.ids)
        contrast = None if self.contrast is None else places[count:]
        return rows, Target(ids, contrast, self.positions, self.labelled, self.task, self.names, self.contrast_name)

    def info(self, row: int, mask: Tensor) -> TargetInfo:
        """The description that goes into the result of one text.

        Args:
            row: The text's place in the batch.
            mask: True at real tokens, (B, T).
        """
        position = None
        if self.positions is not None:
            places = self.positions[row].flatten()  # (1,), or (2,) for start and end
            chosen = {int(places[i if len(places) > 1 else 0]) for i in self.ids[row].tolist()}
            position = int(mask[row, : chosen.pop()].sum()) if len(chosen) == 1 else None
        kind = {"token": "token", "regression": "value"}.get(self.task.kind, "label")
        contrast = None if self.contrast is None else int(self.contrast[row])
        return TargetInfo(
            kind,  # type: ignore[arg-type]
            self.names[row],
            tuple(self.ids[row].tolist()),
            self.contrast_name,
            contrast,
            position,
        )


def resolve(
    model: TaskModel, run: ForwardPass, spec: TargetSpec = "predicted", contrast: Choice | None = None
) -> Target:
    """Turn what the caller asked for into indices.

    Args:
        model: The model.
        run: Its forward pass, for the prediction.
        spec: See `TargetSpec`.
        contrast: A choice to subtract.

    Raises:
        TargetError: If a label or token does not exist, is ambiguous, or cannot be explained by this model.
    """
    task, count = model.task, len(run.logits)
    if task.kind == "regression" and (spec not in ("predicted", "all", 0) or contrast is not None):
        raise TargetError("a regression model has one output; there is no other target or contrast to choose")
    if task.kind == "span" and contrast is not None:
        raise TargetError("start and end of an answer are read at different tokens; there is no contrast of the two")
    labelled = True
    if isinstance(spec, str) and spec == "predicted":
        ids, labelled = run.logits.argmax(-1, keepdim=True), False  # (B, 1)
        if task.kind == "span":
            ids = torch.zeros_like(ids)  # (B, 1), the start
    else:
        if isinstance(spec, str) and spec == "all":
            if task.vocabulary:
                raise TargetError("'all' would be the whole vocabulary; name the tokens you want instead")
            chosen = list(range(run.logits.shape[-1]))
        elif isinstance(spec, str | int):
            chosen, labelled = [index_of(model, spec, run.logits.shape[-1])], False
        else:
            chosen = [index_of(model, choice, run.logits.shape[-1]) for choice in spec]
            if not chosen:
                raise TargetError("the list of targets is empty")
        ids = torch.tensor([chosen], device=run.logits.device).expand(count, -1)  # (B, K)
    other = None
    if contrast is not None:
        other = torch.full((count,), index_of(model, contrast, run.logits.shape[-1]), device=ids.device)  # (B,)
    names = tuple(tuple(name_of(model, i) for i in row) for row in ids.tolist())
    contrast_name = None if other is None else name_of(model, int(other[0]))
    return Target(ids, other, run.positions, labelled, task, names, contrast_name)


def answers(run: ForwardPass) -> list[Prediction]:
    """The spans that a question-answering model extracts.

    The label is the answer as it stands in the text (its tokens where there is no text), empty for none; the id the
    index of its first token; the value the sum of start and end logit; the probability the product of the two.
    """
    said = []
    for row, encoding in enumerate(run.batch.encodings):
        if run.everywhere is None or run.positions is None:
            raise ValueError("not the forward pass of a question-answering model")
        mask = run.batch.mask[row]
        places = run.positions[row]  # (2,)
        start, end = (int(mask[:place].sum()) for place in places.tolist())
        chances = run.everywhere[row].float()[mask].softmax(0)  # (T, 2)
        text = encoding.text_pair if encoding.sequence_ids[start] == 1 else encoding.text
        label = ""
        if not encoding.special[start]:
            label = "".join(encoding.tokens[start : end + 1])
            if text is not None and encoding.offsets is not None:
                label = text[encoding.offsets[start][0] : encoding.offsets[end][1]]
        chance = float(chances[start, 0] * chances[end, 1])
        said.append(Prediction(label.strip(), start, float(run.logits[row].sum()), chance))
    return said


def predictions(model: TaskModel, logits: Tensor) -> list[Prediction]:
    """What each row of logits, (N, C), says."""
    values, ids = logits.float().max(-1)
    if model.task.kind == "regression":
        chances: list[float | None] = [None] * len(ids)
    elif model.task.kind == "multi-label":
        chances = values.sigmoid().tolist()
    else:
        chances = (values - logits.float().logsumexp(-1)).exp().tolist()
    rows = zip(ids.tolist(), values.tolist(), chances, strict=True)
    return [Prediction(name_of(model, i), i, value, chance) for i, value, chance in rows]


def name_of(model: TaskModel, index: int) -> str:
    """What an output of the model's head is called."""
    if not model.task.vocabulary:
        return model.task.labels[index]
    return readable_tokens(model.tokenizer, [index])[0]


def index_of(model: TaskModel, choice: Choice, count: int) -> int:
    """The output of the model's head that a caller means.

    Args:
        model: The model.
        choice: Its name or index.
        count: Number of outputs.

    Raises:
        TargetError: If there is no such output.
    """
    if isinstance(choice, bool) or not isinstance(choice, str | int):
        raise TargetError(f"a target is a name or an index, not {type(choice).__name__}")
    index = choice
    if isinstance(choice, str):
        index = _token_index(model.tokenizer, choice) if model.task.vocabulary else _label_index(model.task, choice)
    if not 0 <= int(index) < count:
        raise TargetError(f"index {index} is outside the model's {count} outputs")
    return int(index)


def _label_index(task: Task, name: str) -> int:
    matches = [i for i, label in enumerate(task.labels) if label == name]
    if not matches:
        matches = [i for i, label in enumerate(task.labels) if label.casefold() == name.casefold()]
    if not matches and name.isdigit():
        return int(name)
    if len(matches) != 1:
        known = ", ".join(task.labels)
        raise TargetError(f"{'no' if not matches else 'more than one'} label {name!r}; the model knows {known}")
    return matches[0]


def _token_index(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """The single vocabulary entry for a string, as the start of a word if there is such a piece."""
    forms = [text] if text != text.lstrip() else [" " + text, text]
    pieces: list[int] = []
    for form in forms:
        pieces = tokenizer.encode(form, add_special_tokens=False)
        if len(pieces) == 1 and pieces[0] != tokenizer.unk_token_id:
            return pieces[0]
    known = tokenizer.convert_tokens_to_ids(text)  # a piece by its own name, such as "##ing" or "Ġthe"
    if isinstance(known, int) and known != tokenizer.unk_token_id:
        return known
    if text.isdigit():
        return int(text)
    split = ", ".join(repr(p) for p in tokenizer.convert_ids_to_tokens(pieces))
    raise TargetError(f"{text!r} is not one token for this model but {split or 'nothing'}; choose a single-token word")

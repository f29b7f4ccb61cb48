"""Two towers: models that embed texts and pictures in one space, such as CLIP and SigLIP."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from ...compat import INSTALL_FOR_TOWERS, towers_return_states
from ...errors import InputError, UnsupportedModelError
from ...inputs.encoding import Encoding
from ...inputs.texts import collected, named_columns, text_column
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...tasks.base import Task, loaded
from ...tasks.task_outputs import Outputs
from ..extension import TWO_TOWERS
from ..inputs.items import columns_of_media
from ..inputs.pictures import is_picture, names_picture
from .classification import ImageClassification

READERS = {"text": "tokenizer", "vision": "image_processor"}
"""The part of the processor that reads the inputs of each side."""


class Tower(PreTrainedModel):
    """One of the caller's two towers as a task model, which answers with the vector of a text or a picture."""

    base_model_prefix = "towers"

    def __init__(self, towers: PreTrainedModel, side: Literal["text", "vision"]) -> None:
        """Wrap the towers.

        Args:
            towers: The caller's model of both.
            side: Which of them.
        """
        nn.Module.__init__(self)  # that of a pretrained model would write on the configuration
        self.config = getattr(towers.config, f"{side}_config")
        self.towers = towers
        self.side = side
        self.training = towers.training

    @property
    def task_class(self) -> type[Task]:
        """The task of the side, which the library asks a model for."""
        return TextTower if self.side == "text" else PictureTower

    @property
    def main_input_name(self) -> str:  # type: ignore[override]
        """The name of the tower's main input."""
        return "input_ids" if self.side == "text" else "pixel_values"

    def get_input_embeddings(self) -> nn.Module:
        """Return the text tower's table of word embeddings; as in transformers, one of pictures raises."""
        if self.side == "vision":
            raise NotImplementedError
        return cast(Any, self.towers).text_model.get_input_embeddings()

    def forward(self, **inputs: Any) -> SequenceClassifierOutput:
        """Embed texts or pictures, without normalising the vectors."""
        towers = cast(Any, self.towers)
        embed = towers.get_text_features if self.side == "text" else towers.get_image_features
        output = embed(**inputs)
        return SequenceClassifierOutput(logits=output.pooler_output, hidden_states=output.get("hidden_states"))


class TextTower(Task):
    """The side of two towers that reads texts."""

    name = "embedding"

    def encode_each(self, model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
        """Encode texts; those of SigLIP are padded to the longest length, as that model attends to padding."""
        encodings = model.encoder(list(items))
        if "siglip" not in str(model.config.model_type):
            return encodings
        length = int(model.config.max_position_embeddings)
        padding = int(self.tokenizer.pad_token_id)
        token = str(self.tokenizer.pad_token)
        return [_padded(encoding, length - len(encoding), padding, token) for encoding in encodings]


class PictureTower(ImageClassification):
    """The side of two towers that reads pictures."""

    outputs = Outputs()  # pyright: ignore[reportAssignmentType]  # a vector has no labels

    def encode_each(self, model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
        """Encode pictures."""
        return self.encode(model, list(items))[0]


class TwoTowers(Task):
    """A model with a tower for texts and one for pictures, whose vectors are compared."""

    name = TWO_TOWERS.name
    models = TWO_TOWERS.models

    @classmethod
    def tokenizer_of(cls, reader: Any) -> Any:
        """Return the tokenizer of the processor."""
        return getattr(loaded(reader), "tokenizer", reader)

    def check_explains_inputs(self, model: TaskModel) -> None:
        """Refuse to explain a vector by itself."""
        raise UnsupportedModelError(
            f"{model.name} answers a text or a picture with a vector, of which nothing is to be explained by itself; "
            "similarity(picture, ['a photo of a cat', 'a photo of a dog']) explains how it is compared with texts"
        )

    def comparison_notes(self, lengths: tuple[float, float], *, prompted: bool) -> Strings:
        """Return no notes: the model compares by the cosine."""
        return ()

    def items_compared(self, items: Any, prompt_name: str | None = None) -> tuple[list[Any], bool]:
        """Return texts and pictures, and whether there was a single one."""
        if prompt_name is not None:
            raise InputError("prompts= names prompts of sentence-transformers' files, and this model has none")
        items = _column_compared(collected(items))
        is_collection = isinstance(items, Iterable) and not isinstance(items, str | tuple) and not is_picture(items)
        return (list(items), False) if is_collection else ([items], True)

    def part_for(self, model: nn.Module, item: Any) -> tuple[nn.Module, Any]:
        """Return the tower that reads an item, and what reads its inputs."""
        if not towers_return_states(model):
            raise UnsupportedModelError(
                f"{type(model).__name__} has no get_image_features that returns hidden states with the vectors of "
                f"pictures; those of transformers return them since version 5: {INSTALL_FOR_TOWERS}"
            )
        if not is_picture(item):  # any text passes, too, as it may be a path
            raise InputError(f"two towers compare texts and pictures, not {type(item).__name__}")
        is_text = isinstance(item, str) and not names_picture(item)
        side: Literal["text", "vision"] = "text" if is_text else "vision"
        reader = getattr(self.processor, READERS[side], None)
        if reader is None:
            raise InputError(f"the processor has no {READERS[side]}: pass the model's own, AutoProcessor's")
        return Tower(cast(PreTrainedModel, model), side), reader


def _column_compared(items: Any) -> Any:
    """Return the column of pictures, or else of texts, of a table or a mapping; anything else unchanged."""
    columns = None if is_picture(items) else named_columns(items)
    if columns is None:
        return items
    # A column of texts is compared as texts, although any text may be the path of a picture.
    of_pictures = columns_of_media(items, columns, lambda value: not isinstance(value, str) and is_picture(value))
    return columns[of_pictures[0]] if len(of_pictures) == 1 else text_column(items)


def _padded(encoding: Encoding, count: int, token_id: int, token: str) -> Encoding:
    """Return a text with `count` padding tokens behind it, which stand for no characters, and which the model reads."""
    end = max((span[1] for span in encoding.offsets or ()), default=0)
    inputs = {name: [*values, *[0] * count] for name, values in encoding.inputs.items()}
    return replace(
        encoding,
        inputs={**inputs, "input_ids": [*encoding.ids, *[token_id] * count]},
        tokens=(*encoding.tokens, *[token] * count),
        offsets=encoding.offsets and (*encoding.offsets, *[(end, end)] * count),
        words=encoding.words and (*encoding.words, *[(0, 0)] * count),
        sequence_ids=(*encoding.sequence_ids, *[None] * count),
        special=(*encoding.special, *[True] * count),
    )

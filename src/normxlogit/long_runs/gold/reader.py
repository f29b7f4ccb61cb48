"""One value of a column, read as a label of a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError
from ...results.units.characters import one_line
from .meaning import GoldLabels
from .model_labels import ModelLabels
from .values import Value, is_number, value_text, whole_number_of

Gold = tuple[int | str, ...]
"""The gold labels of a text, by index or name: none if they are missing, several where several are true."""

WORDS_OF_TRUTH: Mapping[str, Sequence[str]] = {"true": ("true", "yes"), "false": ("false", "no")}
"""The names of labels that a boolean means."""

MISSING_CLASS = -1
"""What data sets with class names write where the label is missing, as GLUE's test data do."""


@dataclass(frozen=True)
class LabelReader:
    """Reads values as labels of a model.

    Each method that reads returns a tuple with the name or the index of the label that a value means. The tuple is
    empty if the rows with this value are left out. None says that it cannot be told which label is meant.

    Attributes:
        labels: The labels of the model, or the tokens of its vocabulary.
        meaning: What the caller and the data set say of the values.
    """

    labels: ModelLabels
    meaning: GoldLabels

    def read(self, value: Value) -> Gold | None:
        """Read a value: by the caller's mapping if there is one, else by the data set's classes, else by its text.

        Args:
            value: A gold label as a plain value.

        Raises:
            InputError: If the mapping names a label that the model does not have, or a list is written as text.
        """
        if self.labels.are_tokens:
            return self._token(value)
        number = whole_number_of(value)
        class_name = self.meaning.name_of(number)
        if self.meaning.mapping:
            return self._mapped(value, class_name)
        if number is not None and class_name is not None:
            return self._class(number, class_name)
        if number == MISSING_CLASS and self.meaning.of_data_set:
            return ()  # the row is left out
        if value_text(value) in WORDS_OF_TRUTH:
            return self._boolean(value)
        return self._plain(value)

    def name_of(self, value: Value) -> str:
        """Return how an error calls a value: by the name of its class in the data set, or as it is written."""
        return self.meaning.name_of(whole_number_of(value)) or str(value)

    def _token(self, value: Value) -> Gold | None:
        """Read a token: a string is its text, a number its id."""
        if isinstance(value, str):
            return (value,)
        number = whole_number_of(value)
        return None if number is None or number < 0 else (number,)

    def _mapped(self, value: Value, class_name: str | None) -> Gold | None:
        """Read a value by the caller's mapping, which may have the value or its class.

        A value that is not in the mapping is the name of a label.

        Args:
            value: The value.
            class_name: The name that the data set has for it; None for none.
        """
        key = self.meaning.key_of(value)
        if key is not None:
            return self._mapped_label(key)
        return self._called(value) if class_name is None else self._named(class_name)

    def _mapped_label(self, key: str) -> Gold:
        """Read the label that the caller's mapping has under a key.

        Args:
            key: The text of a value, or of its class name.
        """
        label = self.meaning.mapping[key]
        if label is None:
            return ()
        gold = self._index(label) if isinstance(label, int) else self._named(label)
        if gold is not None:
            return gold
        if value_text(label) == key:  # a value that is mapped to itself is a label that the model never predicts
            return (label,)
        raise InputError(f"gold_labels: the model has no label {one_line(str(label))!r}, only {self.labels}")

    def _class(self, number: int, name: str) -> Gold | None:
        """Read a class of the data set: by its name, or by its number where the model's labels have default names.

        Args:
            number: The number of the class, which is what the column holds.
            name: Its name in the data set.
        """
        if not self.labels.are_default_names or self.labels.called(name) is not None:
            return self._named(name)
        # "LABEL_0" says nothing, so classes are counted as labels are, unless there are not as many of them.
        if self.labels.complete and len(self.labels.names) != len(self.meaning.names):
            return None
        return self._index(number)

    def _boolean(self, value: Value) -> Gold | None:
        """Read true or false: as the only label that is called so, such as "yes", else as the number 1 or 0.

        Where the caller says that numbers count the labels, it is always the number.
        """
        text = value_text(value)  # "true" or "false"
        labels = {self.labels.called(name) for name in (str(value), *WORDS_OF_TRUTH[text])} - {None}
        if len(labels) == 1 and not self.meaning.count_labels:
            return self._label(labels.pop())
        return self._plain(1 if text == "true" else 0)

    def _plain(self, value: Value) -> Gold | None:
        """Read a value of which neither a mapping nor a data set says what it means.

        A text is the name of a label. A number is an index if the caller says that numbers count the labels, or if the
        labels have default names; otherwise it is read where the name of a label is this number, or holds it.
        """
        number = whole_number_of(value)
        if number is None:
            return self._called(value)
        if self.meaning.count_labels:
            return self._index(number)
        label = self.labels.called(str(value)) or self.labels.called(str(number))  # "3.0" may be called "3"
        if label is None and self.labels.are_default_names:
            return self._index(number)
        return self._label(label or self.labels.numbered(number))

    def _index(self, index: int) -> Gold | None:
        """Read an index of the model's labels; one that is not among the known labels may exist all the same."""
        if index in self.labels.names:
            return self._label(self.labels.names[index])
        return None if index < 0 or self.labels.complete else (index,)

    def _called(self, value: Value) -> Gold | None:
        """Read a value as the name of a label; a number only if there is a label of this name."""
        name = str(value)
        return self._label(self.labels.called(name)) if is_number(value) else self._named(name)

    def _named(self, name: str) -> Gold | None:
        """Read the name of a label; one that is not among the known labels may exist all the same."""
        label = self.labels.called(name)
        if label is None and name.lstrip().startswith("["):
            raise InputError(f"gold label {one_line(name)} is a list as text: pass map(json.loads, labels)")
        return (name,) if label is None and not self.labels.complete else self._label(label)

    def _label(self, label: str | None) -> Gold | None:
        """Return the name of one of the model's labels as a gold label; None if there is no such label."""
        return None if label is None else (label,)

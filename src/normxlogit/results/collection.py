"""`Attributions`: a sequence of results with slices, drawings, files, tables and comparisons of methods."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, SupportsIndex, TypeVar, overload

import numpy as np

from ..errors import DataError, InputError
from ..extending import import_registered, references
from ..text.same import common_spelling, matching_names, word_key
from .agreement import Agreement
from .attribution import Attribution
from .base import Exports, Record, for_kind_of
from .storage.columns import read_parquet
from .storage.files import read_json
from .storage.schema import FORMAT_VERSION, Fields, Float64Array, FloatArray, State, checked_version, setting_text
from .storage.tables import Columns, Row, concat_tables
from .targets import prediction_of
from .unexplained import Unexplained
from .units.characters import one_line
from .units.units import UnitScore

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import Self

R = TypeVar("R", bound=Record)
Array = np.ndarray[Any, Any]


class WordTotal(NamedTuple):
    """A word in lower case, the mean over several texts of its mean score in each, and how many texts it is in."""

    text: str
    score: float
    texts: int


class Attributions(Sequence[R], Exports):
    """A sequence of results, of several texts or of several methods on one text.

    Adjacent results of one text and one target by several methods are drawn side by side.
    """

    kind: ClassVar = "attributions"

    def __init__(self, results: Iterable[R] = ()) -> None:
        self._items: tuple[R, ...] = tuple(results)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[R]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        """Return whether another collection, list or tuple holds equal results."""
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # its results are not hashed either

    @overload
    def __getitem__(self, index: SupportsIndex) -> R: ...  # type: ignore[overload-overlap]  # an array of one is both
    @overload
    def __getitem__(self, index: "slice | Sequence[int] | Sequence[bool] | Array") -> "Self": ...
    def __getitem__(self, index: "SupportsIndex | slice | Sequence[int] | Sequence[bool] | Array") -> "R | Self":
        """Return one result, or several as a collection.

        Args:
            index: A number, a slice, a list (array, column) of numbers, or one of true and false for each result.
        """
        if isinstance(index, slice):
            return type(self)(self._items[index])
        is_array = getattr(index, "ndim", 0) > 0  # arrays of numpy and torch have `__index__` too
        if isinstance(index, SupportsIndex) and not is_array:
            return self._items[index]
        indices = np.asarray(index)
        are_numbers = indices.dtype.kind in "iub"  # signed and unsigned whole numbers, and true and false
        if indices.ndim != 1 or (len(indices) and not are_numbers):
            raise InputError("results are chosen by a number, a slice, a list of numbers, or a mask of true and false")
        if indices.dtype == bool:
            if len(indices) != len(self):
                raise InputError(f"a mask of {len(indices)} for {len(self)} results")
            indices = np.flatnonzero(indices)
        return type(self)(map(self._items.__getitem__, indices.tolist()))

    def __add__(self, other: Iterable[Any]) -> "Attributions[Any]":
        """Return both, one after the other."""
        return Attributions([*self, *other])

    def filter(
        self,
        predicate: Callable[[R], bool] | None = None,
        *,
        label: str | None = None,
        gold: Iterable[Any] | None = None,
        gold_labels: Any = None,
        correct: bool | None = None,
    ) -> "Self":
        """Return the results that fulfil every condition.

        Args:
            predicate: A function of one result.
            label: The predicted label.
            gold: The right label of each text, by name: a list or a column of strings, booleans or numbers. A number is
                the label that is called by it, as 3 is "3 stars", or the class of that number in a column of a data
                set. A text whose label is missing (None, NaN, "") is neither right nor wrong.
            gold_labels: What other values of `gold` mean: a mapping to labels such as {1: "negative", 5: "positive",
                3: None}, where None stands for a missing label; the names of whole numbers from 0 on, as in a
                `ClassLabel`; or "id2label" if numbers count the labels of the model.
            correct: Whether to keep the texts with the right prediction, which is the default, or those with a wrong
                one; goes with `gold`.

        Raises:
            InputError: If there is not one gold label for each result, it cannot be told which labels they mean,
                `correct` or `gold_labels` is set without them, or the results are of a regression, which has no labels.
        """
        matches = [*self]
        if gold is not None:
            keeps_right = correct is not False  # neither keeps a text whose label is missing: it has None
            are_right = self._are_right(gold, gold_labels)
            matches = [result for result, is_right in zip(self, are_right, strict=True) if is_right is keeps_right]
        elif correct is not None:
            raise InputError(f"correct={correct} needs the right labels: give gold=, one label for each result")
        elif gold_labels is not None:
            raise InputError("gold_labels= says what the values of gold= mean: give both")
        if label is not None:
            # "" of a result without a single prediction
            labels = [str(getattr(prediction_of(result), "label", "")) for result in matches]
            matches = [matches[index] for index in matching_names(label, labels)]
        if predicate is not None:
            matches = list(filter(predicate, matches))
        return type(self)(matches)

    def _are_right(self, gold: Any, gold_labels: Any) -> list[bool | None]:
        """Return whether each prediction is the right one, None where this is not known; arguments as of `filter`."""
        if isinstance(gold, str | bytes | set | frozenset | Mapping):
            raise InputError("gold= takes one label for each result, such as a list or a column")
        # Of a column in its order, whatever its index; the column of a data set names its classes.
        values = gold if hasattr(gold, "features") else list(gold)
        if len(values) != len(self):
            raise InputError(f"{len(values)} gold labels for {len(self)} results")
        return self.export("right answers", gold=values, gold_labels=gold_labels)

    def top(self, k: int = 10, *, min_texts: int = 1) -> list[WordTotal]:
        """Return the words with the highest mean score over all texts.

        A text counts once, by the mean score of the word's places in it.

        Args:
            k: How many.
            min_texts: Leave out words of fewer texts.

        Raises:
            DataError: If a result has no offsets for its words, or several scores for one; choose a target and a layer
                of each first.
        """
        means: defaultdict[str, list[float]] = defaultdict(list)  # of each word, in each text that has it
        spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for result in self:
            for key, words in words_by_key(result).items():
                means[key].append(float(np.mean([word.score for word in words])))
                spellings[key].update(word.text for word in words)
        totals = [
            WordTotal(common_spelling(spellings[key]), float(np.mean(of_word)), len(of_word))
            for key, of_word in means.items()
            if len(of_word) >= min_texts
        ]
        return sorted(totals, key=lambda total: (-total.score, total.text))[:k]

    def plot(self, k: int | None = None, *, min_texts: int = 1) -> "Figure":
        """Return the words of `top`, which has the same arguments, as a matplotlib figure.

        Of several methods on one text it is a heat map, a row for each method on the scale of its own largest score.

        Args:
            k: How many words, by default 15; of a heat map those that are strongest by any method, by default 40.
            min_texts: As in `top`.

        Raises:
            DataError: If matplotlib is missing, or as `top`.
        """
        return for_kind_of(self, "figures")(self, k, min_texts=min_texts)

    @property
    def comparable(self) -> bool:
        """Whether these are results of several methods, each once, for one text and one target."""
        try:
            results = self.compared()
        except DataError:
            return False
        return len(results) == len(set(map(_method, results))) > 1  # several, and no method twice

    def compared(self) -> list[Attribution]:
        """Return the results as attributions that can be compared: of one text, one target and one model.

        Raises:
            DataError: If there is none, one is of another kind, or has several scores for a token, or they are of
                different texts, targets or models.
        """
        attributions: list[Attribution] = [result for result in self if isinstance(result, Attribution)]
        if not attributions or len(attributions) < len(self):
            raise DataError("there are no results to compare")
        if any(a.scores.ndim != 1 for a in attributions):
            raise DataError("methods are compared by one score for each token; choose a target and a layer first")
        first = attributions[0]
        if any(_explained(a) != _explained(first) for a in attributions):
            raise DataError("methods are compared on one text, one target and one model, and these results differ")
        return attributions

    @property
    def agreement(self) -> Agreement:
        """Spearman's rank correlation between each pair of methods over the tokens of one text, by their names.

        Special tokens are left out. NaN if there are fewer than two others, or a method scores them all alike.

        Raises:
            DataError: If the results are not of the same model, tokens and target, or hold several scores for each.
        """
        results = self.compared()
        not_special = ~np.array(results[0].units.special)
        ranks = np.stack([_ranks(a.scores[not_special]) for a in results])  # (M, T)
        mean_rank = (ranks.shape[1] + 1) / 2
        centered = ranks - mean_rank  # (M, T)
        lengths = np.linalg.norm(centered, axis=1)  # (M,)
        with np.errstate(invalid="ignore"):  # 0 / 0 of a method that scores all tokens alike
            # Spearman's correlation is Pearson's of the ranks: a cosine of centered vectors.
            correlations = np.clip(centered @ centered.T / np.outer(lengths, lengths), -1, 1)  # (M, M)
        return Agreement(distinct_names(results, _method), correlations)

    def to_dict(self) -> Fields:
        """Return everything as plain values, as the commands write it."""
        return {"format_version": FORMAT_VERSION, "attributions": [result.to_dict() for result in self]}

    @classmethod
    def from_dict(cls, state: State) -> "Attributions[Any]":
        """Rebuild what `to_dict` returned; one result alone is a collection of one.

        Raises:
            DataError: If the state is not of results.
        """
        checked_version(state)
        states = state.get("attributions", [state])
        if not isinstance(states, list):
            raise DataError("not attributions: expected a list")
        results: list[Any] = []
        try:
            for result_state in states:
                kind = checked_version(result_state).get("kind")
                results.append(record_type(kind).from_dict(result_state))
        except DataError as error:
            raise DataError(f"result {len(results)}: {error}") from None
        return cls(results)

    def _results(self) -> "Attributions[Any]":
        return self

    def __repr__(self) -> str:
        explained = [result for result in self if result.error is None]
        methods = list(dict.fromkeys(result.scored.method for result in explained))
        by_methods = f" by {', '.join(methods)}" if len(methods) > 1 else ""
        missing = len(self) - len(explained)
        not_explained = f", {missing} of them not explained" if missing else ""
        return one_line(f"Attributions({len(self)} results{by_methods}{not_explained})")

    def _text_columns(self) -> Columns:
        return concat_tables([result._text_columns() for result in self], self._method_cells())

    def _method_cells(self) -> list[Row]:
        """Return the leading cells of each result in a table: its method, or none if all have the same one."""
        methods = [_method(result) for result in self]
        have_several = len({*methods} - {""}) > 1
        return [{"method": method} if have_several else {} for method in methods]

    def by_text(self) -> "list[Self]":
        """Group adjacent results of several methods on one text; every other result is a group of its own."""
        groups: list[list[R]] = []
        for result in self:
            if groups and _is_another_method_on(result, groups[-1]):
                groups[-1].append(result)
            else:
                groups.append([result])
        return [type(self)(group) for group in groups]

    def drawn_together(self) -> "list[Self]":
        """Group the results that are drawn together: several methods on one text."""
        groups: list[Self] = []
        for group in self.by_text():
            if group.comparable:
                groups.append(group)
            else:
                groups += [type(self)([result]) for result in group]
        return groups

    def _columns(self) -> Columns:
        """Return a table with a row for each unit, with the number of its text and its method if there are several."""
        text_indices = [index for index, group in enumerate(self.by_text()) for _ in group]
        numbered = zip(text_indices, self._method_cells(), strict=True)
        leading_cells = [{"text_index": index, **method} for index, method in numbered]
        return concat_tables([result._columns() for result in self], leading_cells)


def load(path: str | Path) -> Any:
    """Read a file that `save` or a command wrote, in JSON or Parquet.

    Returns:
        What was saved: a result, or `Attributions` of a collection, of a command for several inputs and of a corpus.

    Raises:
        DataError: If the file is not such a file.
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        raise DataError(f"{path}: a CSV file holds scores only; save as .json or .parquet to load again")
    try:
        state = read_parquet(path) if suffix == ".parquet" else read_json(path)
        results = Attributions.from_dict(state)
    except DataError as error:  # names the file
        raise DataError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    return results if "attributions" in state else results[0]


OWN_KINDS = frozenset((Attribution.kind, Attributions.kind, Unexplained.kind))
"""Kinds of results that are not an extension's, and that none may take."""


def record_type(kind: Any) -> type[Record]:
    """Return the class of results of a kind: that of an extension, otherwise the attribution's."""
    if kind in list(references("results", OWN_KINDS)):  # of a damaged file it may be a list, which a mapping refuses
        return import_registered("results", kind)
    return Unexplained if kind == Unexplained.kind else Attribution


def words_by_key(result: Any) -> dict[str, list[UnitScore]]:
    """Return the words of a result, by the form in which words are compared.

    Punctuation is left out; an input that was not explained has no words.

    Raises:
        DataError: If a word has several scores.
    """
    words: defaultdict[str, list[UnitScore]] = defaultdict(list)
    for word in result.words() if result.error is None else ():
        if isinstance(word.score, np.ndarray):
            raise DataError("top() needs one score for each word; choose with a[target] and a.layer(...)")
        if any(c.isalnum() for c in word.text):
            words[word_key(word.text)].append(word)
    return words


def distinct_names(results: Sequence[Attribution], full_name: Callable[[Attribution], str]) -> list[str]:
    """Return the names of methods, full ones with settings where one method stands with several."""
    counts = Counter(a.method for a in results)
    return [a.method if counts[a.method] == 1 else full_name(a) for a in results]


def _method(result: Record) -> str:
    """Return a result's method with its settings, as it is typed; "" of an input that was not explained."""
    if result.error is not None:
        return ""
    a = result.scored
    settings = ",".join(f"{key}={setting_text(value)}" for key, value in a.settings.items())
    return f"{a.method}:{settings}" if settings else a.method


def _explained(a: Attribution) -> tuple[Any, ...]:
    """Return all that is explained: the text with its tokens, the targets and the model."""
    return a.units.text, a.text, a.text_pair, a.targets, a.model


def _is_another_method_on(result: Record, group: Sequence[Record]) -> bool:
    """Return whether a result is of the text of a group of results, by a method that none of them has."""
    return _text(result) == _text(group[0]) and _method(result) not in map(_method, group)


def _text(result: Record) -> tuple[Any, ...]:
    """Return the text of a result, with its second text and its units; None for what it does not have."""
    return tuple(getattr(result, name, None) for name in ("text", "text_pair", "units"))


def _ranks(scores: FloatArray) -> Float64Array:
    """Return the rank of each score from 1, ties sharing their mean; (T,)."""
    _, value_indices, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)  # of each distinct score, in ascending order
    mean_ranks: Float64Array = last_ranks - (counts - 1) / 2
    return mean_ranks[value_indices]

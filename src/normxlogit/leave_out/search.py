"""Verify explanations: run the model again without units, one at a time, together, and in ever smaller sets.

Deletion of one part at a time says what the model answers without it (Li et al. 2016, "Understanding Neural Networks
through Representation Erasure"); the smallest set whose removal changes the prediction is found by bisection over the
parts in the order of their measured effects, and made irreducible by putting parts back.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from ..results.attribution import Attribution
from ..results.verification import Removal, Verification
from .outcomes import Answer
from .removable import Removable
from .removal import TextRemoval
from .smallest import Asking, SetSearch, tokens_of

NOTHING_REMOVABLE = "not verified: there is nothing that could be removed, or nothing would be left"


def run_searches(
    results: Sequence[Attribution],
    removables: Sequence[Removable],
    answers: Callable[[list[TextRemoval]], Iterable[Answer]],
) -> list[Attribution]:
    """Verify results in step, so that the inputs they ask for share batches; note where nothing can be removed.

    Args:
        results: The results.
        removables: The removable parts of each, see `picking`.
        answers: Measures removals, in their order.
    """
    searches = {place: search(removable) for place, removable in enumerate(removables) if removable.most > 0}
    # Of all results; those that are searched are replaced below.
    verified = [replace(result, notes=(*result.notes, NOTHING_REMOVABLE)) for result in results]
    pending = {place: next(running) for place, running in searches.items()}  # the sets of tokens that each removes next
    while pending:
        replies = iter(answers([TextRemoval(place, tokens) for place, sets in pending.items() for tokens in sets]))
        next_pending = {}
        for place, sets in pending.items():
            try:
                next_pending[place] = searches[place].send(list(islice(replies, len(sets))))
            except StopIteration as stop:  # noqa: PERF203  # the search has ended: its value is the verification
                verified[place] = replace(results[place], verified=stop.value)
        pending = next_pending
    return verified


def search(units: Removable) -> Asking[Verification]:
    """Verify one result: remove its first parts together and alone, and as many others as a control.

    Args:
        units: The removable parts, those to be removed first.

    Yields:
        Sets of tokens to remove; it is sent the answers without each.

    Returns:
        What was measured.
    """
    parts = units.parts
    first = list(range(units.singles))  # members of a set are indices of parts
    alone = first if units.one_by_one else []
    together = list(range(len(parts))) if units.all_together else first[: units.most]
    sets = [(), tokens_of(parts, together), *(tokens_of(parts, [member]) for member in alone)]
    original, without_together, *answers = yield sets  # () removes nothing
    single = dict(zip(alone, answers, strict=True))
    smallest = control = None
    if single and not units.all_together:
        sets_of_parts = SetSearch(parts, original)
        smallest = yield from sets_of_parts.changing_set(single, without_together, among_all=units.among_all)
        control = yield from sets_of_parts.control_set(len(first), smallest)

    removal = partial(_removal, units, original)
    return Verification(
        target=units.target,
        quantity=units.quantity,
        unit=units.unit,
        removed_by=units.removed_by,
        original=removal([], original),
        single=tuple(removal([member], answer) for member, answer in single.items()),
        together=removal(together, without_together),
        smallest=None if smallest is None else removal(*smallest),
        control=None if control is None else removal(*control),
        named=units.named,
    )


def _removal(units: Removable, original: Answer, members: Sequence[int], answer: Answer) -> Removal:
    """Return the answer without some parts, the members by their indices, as a result shows it."""
    parts = units.parts
    return Removal(
        units=tuple(parts[member].text for member in sorted(members, key=lambda member: parts[member].tokens)),
        tokens=tokens_of(parts, members),
        prediction=answer.prediction,
        value=answer.value,
        changed=answer.outcome != original.outcome,
        quantity=units.quantity,
        original=original.value,
        values=answer.values,
    )

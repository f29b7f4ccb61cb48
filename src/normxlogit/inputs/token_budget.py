"""The number of tokens in one forward pass: the caller's setting, or fewer after memory ran out."""

GROWS_AFTER = 32
"""Batches that must fit, one after the other, before a larger one is tried again."""


class TokenBudget:
    """Most tokens, padding included, in one forward pass.

    Memory may run out because a batch is too large for the device, or because another process had it just then. So the
    budget that fits is kept for the calls that follow, and doubled again after many batches that fitted. When a batch
    fits that is as large as the one that failed, the lack of memory has passed, and the budget is the caller's again.

    Args:
        limit: What the caller set; the budget never exceeds it.
    """

    def __init__(self, limit: int) -> None:
        self.limit = self.tokens = limit
        self._failed = 0
        self._fitted = 0

    def shrink(self, tokens: int, failed: int) -> None:
        """Set the budget to fewer tokens.

        Args:
            tokens: The budget.
            failed: Tokens of the batch that memory did not suffice for.
        """
        self.tokens, self._failed, self._fitted = tokens, failed, 0

    def restore(self, tokens: int) -> None:
        """Restore the original budget."""
        self.tokens, self._fitted = tokens, 0

    def fitted(self, tokens: int) -> bool:
        """Record that a batch of this many tokens fitted into memory.

        Returns:
            Whether the budget has grown.
        """
        if self.tokens >= self.limit:
            return False
        self._fitted += 1
        if tokens >= self._failed:
            self.restore(self.limit)
        elif self._fitted >= GROWS_AFTER:
            self.restore(min(2 * self.tokens, self.limit))
        else:
            return False
        return True

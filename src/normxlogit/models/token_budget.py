"""How many tokens go into one forward pass: as many as the caller said, fewer while memory does not suffice."""

__all__ = ["TokenBudget"]

GROWS_AFTER = 8
"""Batches that must fit, one after the other, before the budget is doubled again."""


class TokenBudget:
    """Most tokens, padding included, in one forward pass.

    Memory may run out because a batch is too large for the device, or because another process had it just then. So the
    budget is halved when it runs out, kept for the calls that follow, and doubled again after some batches that fitted.

    Args:
        most: What the caller set; the budget never exceeds it.

    Attributes:
        tokens: What it is now.
    """

    def __init__(self, most: int) -> None:
        self.most = self.tokens = most
        self._fitted = 0

    def set(self, tokens: int) -> None:
        """Set the budget to fewer tokens, or back to what it was."""
        self.tokens, self._fitted = tokens, 0

    def fitted(self) -> bool:
        """Note that a batch fitted into memory.

        Returns:
            Whether the budget has grown.
        """
        if self.tokens >= self.most:
            return False
        self._fitted += 1
        if self._fitted < GROWS_AFTER:
            return False
        self.set(min(2 * self.tokens, self.most))
        return True

"""The padding token, and a token for sequences of length one."""

from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def padding_id(
    module: PreTrainedModel, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> tuple[int, bool]:
    """Choose the token id to pad with: the model's own, or any that it can look up.

    Returns:
        The id, and whether it is the padding id of the model's configuration, which some heads pool by; if not, the
        texts of a batch must be of one length.
    """
    if not isinstance(module, PreTrainedModel):
        return _first((tokenizer.pad_token_id, 0), None), True
    configured = getattr(config.get_text_config(), "pad_token_id", None)
    chosen = _first((configured, tokenizer.pad_token_id, tokenizer.eos_token_id, 0), _rows(module))
    return chosen, chosen == configured


def filler_id(config: PretrainedConfig, pad: int) -> int:
    """Return a token id for one-token sequences: the end-of-sequence token unless that is also the padding."""
    eos = getattr(config.get_text_config(), "eos_token_id", None)
    eos = eos[0] if isinstance(eos, list) else eos
    if eos is not None and eos != pad:
        return int(eos)
    return 1 if pad == 0 else 0


def _first(candidates: tuple[int | None, ...], rows: int | None) -> int:
    return next(int(i) for i in candidates if i is not None and i >= 0 and (rows is None or i < rows))


def _rows(module: PreTrainedModel) -> int | None:
    """Return how many token ids a model knows; None if it does not look them up in a table."""
    try:
        table = module.get_input_embeddings()
    except NotImplementedError:
        return None
    count = getattr(table, "num_embeddings", None)
    return count if isinstance(count, int) else None

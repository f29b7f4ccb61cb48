"""Changes by hand that a first round of mutation testing found alive: `python scripts/mutation.py --listed`.

Each is a mistake that somebody could make: what it breaks, where, the text and what is written in its place, and the
tests that must notice.
"""

from typing import NamedTuple

__all__ = ["LISTED", "Listed"]


class Listed(NamedTuple):
    """A change, and who must notice it.

    Attributes:
        breaks: What is wrong with it.
        path: The file, under src/normxlogit.
        old: What stands there, once.
        new: What is written instead.
        tests: The tests that must fail.
    """

    breaks: str
    path: str
    old: str
    new: str
    tests: str


LISTED = (
    # --- methods
    Listed(
        "regression's distance is taken from the first text of the batch",
        "methods/normxlogit.py",
        "target.read(forward.logits)[texts]).abs()",
        "target.read(forward.logits)[:1]).abs()",
        "tests/test_explainer.py",
    ),
    Listed(
        "the end of an answer is read at its start",
        "models/tasks.py",
        "index = positions if positions.ndim == 2 else",
        "index = positions[:, :1].expand(-1, 2) if positions.ndim == 2 else",
        "tests/models/test_tasks.py",
    ),
    Listed(
        "perturbations read the end of an answer at its start",
        "methods/perturbation.py",
        "for place in positions[row].flatten().tolist()]",
        "for place in positions[row].flatten()[:1].expand(positions[row].numel()).tolist()]",
        "tests/methods/test_perturbation.py",
    ),
    Listed(
        "the sign of the convergence error of Integrated Gradients",
        "methods/gradient.py",
        "= error.float().cpu()",
        "= -error.float().cpu()",
        "tests/methods/test_gradient.py",
    ),
    Listed(
        "KernelSHAP draws the sizes of subsets uniformly",
        "methods/perturbation.py",
        "chances = 1 / (sizes * (count - sizes))",
        "chances = torch.ones(count - 1)",
        "tests/methods/test_perturbation.py",
    ),
    Listed(
        "KernelSHAP is not exact where all subsets are just as many as its samples",
        "methods/perturbation.py",
        "exact = 2**count <= self.samples",
        "exact = 2**count < self.samples",
        "tests/methods/test_perturbation.py",
    ),
    Listed(
        "Value Zeroing's proof that a layer was replayed is off",
        "methods/decomposition/value_zeroing.py",
        "if difference > tolerance_for(call.returned[mask]):",
        "if False:",
        "tests/methods/decomposition",
    ),
    # --- surgery
    Listed(
        "chosen columns of a vocabulary come in another order where the head cannot be cut",
        "surgery/headpiece.py",
        "self._fold(self._model, part)[:, rows] for part",
        "self._fold(self._model, part)[:, rows.flip(0)] for part",
        "tests/surgery/test_headpiece.py",
    ),
    Listed(
        "the proof of the rows reads one row seven times",
        "surgery/headpiece.py",
        "torch.linspace(0, logits.shape[-1] - 1, 7, device=hidden.device).long()",
        "torch.zeros(7, device=hidden.device).long()",
        "tests/surgery/test_headpiece.py",
    ),
    Listed(
        "generation samples by default",
        "pipeline/writing.py",
        'given |= {"do_sample": False,',
        'given |= {"do_sample": True,',
        "tests/pipeline/test_completion.py",
    ),
    Listed(
        "generation keeps the sampling of the model's own settings",
        "pipeline/writing.py",
        '"generation_config" in options and config.do_sample',
        "config.do_sample",
        "tests/pipeline/test_completion.py",
    ),
    Listed(
        "the unlikely trunks are tried first",
        "surgery/parts.py",
        "for path in dict.fromkeys(order):",
        "for path in dict.fromkeys(order[::-1]):",
        "tests/surgery/test_parts.py tests/surgery/test_headpiece.py",
    ),
    Listed(
        "the first calls of a plain module are tried first",
        "surgery/parts.py",
        "key=lambda call: call.end, reverse=True)",
        "key=lambda call: call.end)",
        "tests/surgery/test_parts.py tests/models/test_wrapped.py",
    ),
    Listed(
        "early exit is accepted without its check",
        "surgery/parts.py",
        "return early_exit if (whole - hidden).abs().max().item() <= tolerance_for(hidden) else None",
        "return early_exit",
        "tests/surgery/test_early_exit.py",
    ),
    Listed(
        "the way to the head is accepted without comparing",
        "surgery/layer_to_head.py",
        "        if difference <= tolerance:\n            return tail",
        "        if True:\n            return tail",
        "tests/surgery/test_layer_to_head.py",
    ),
    Listed(
        "the way to the head gets a state with its axes as they are shown",
        "surgery/layer_to_head.py",
        "self._held.state = state.permute(self._back)",
        "self._held.state = state",
        "tests/surgery/test_layer_to_head.py",
    ),
    Listed(
        "the axes are turned the same way twice instead of back",
        "surgery/layer_to_head.py",
        "self._back = tuple(axes.index(axis) for axis in range(len(axes)))",
        "self._back = tuple(axes)",
        "tests/surgery/test_layer_to_head.py",
    ),
    Listed(
        "an embedding that passes by transposed is read as it is",
        "surgery/parts.py",
        "embedded = held.permute(self.axes)[:, :length]",
        "embedded = held[:, :length]",
        "tests/surgery/test_layer_to_head.py tests/surgery/test_parts.py",
    ),
    Listed(
        "tokens that a pooling trunk drops get the first state",
        "surgery/token_pooling.py",
        ".sum(-1).cummax(0).values",
        ".sum(-1)",
        "tests/surgery/test_token_pooling.py",
    ),
    Listed(
        "tokens that a pooling trunk drops get the last state of all",
        "surgery/token_pooling.py",
        ".sum(-1).cummax(0).values",
        ".sum(-1).flip(0).cummax(0).values.flip(0)",
        "tests/surgery/test_token_pooling.py",
    ),
    Listed(
        "the proof's sample of a text that is padded on the left begins with padding",
        "models/proof.py",
        "real = value[rows][batch.mask[rows]].view(count, -1)[:, :width]",
        "real = value[rows][:, :width]",
        "tests/models/test_proof.py",
    ),
    Listed(
        "models whose head takes the last position are padded on the right",
        "models/task_model.py",
        'self.pad_left = getattr(self.config, "summary_type", None) == "last" and hasattr(plain, "sequence_summary")',
        "self.pad_left = False",
        "tests/models/test_task_model.py tests/models/test_map_batches.py",
    ),
    Listed(
        "the filler is the padding",
        "models/padding.py",
        "if eos is not None and eos != pad:",
        "if eos is not None:",
        "tests/models/test_padding.py",
    ),
    # --- inputs
    Listed(
        "texts are padded with 0",
        "inputs/batching.py",
        'pad_id if name == "input_ids" else 0)\n',
        "0)\n",
        "tests/inputs/test_batching.py",
    ),
    Listed(
        "columns of texts are padded with 0",
        "inputs/batching.py",
        'np.full(mask.shape, pad_id if name == "input_ids" else 0, np.int64)',
        "np.full(mask.shape, 0, np.int64)",
        "tests/inputs/test_batching.py tests/corpus/test_run.py",
    ),
    Listed(
        "positions are counted without the padding's row before the first (RoBERTa)",
        "models/input_limits.py",
        "return 0 if padding is None else int(padding) + 1",
        "return 0",
        "tests/models/test_input_limits.py",
    ),
    Listed(
        "the largest of several limits of the length counts",
        "models/input_limits.py",
        "return min(limits, default=None)",
        "return max(limits, default=None)",
        "tests/models/test_input_limits.py",
    ),
    Listed(
        "max_length is ignored",
        "inputs/encoder.py",
        "limit = min(self.limit or length, max_length or length)",
        "limit = self.limit or length",
        "tests/inputs/test_encoder.py",
    ),
    Listed(
        "a mask that was typed into the text counts as a special token",
        "inputs/encoder.py",
        "special = tuple(s is None for s in sequences)",
        "special = tuple(i in self.tokenizer.all_special_ids for i in ids)",
        "tests/inputs/test_encoder.py",
    ),
    Listed(
        "a mask among token ids counts as a special token",
        "inputs/token_ids.py",
        "specials = set(tokenizer.all_special_ids) - {tokenizer.mask_token_id}",
        "specials = set(tokenizer.all_special_ids)",
        "tests/inputs/test_token_ids.py",
    ),
    Listed(
        'the error of a wrong length loses its "not"',
        "inputs/texts.py",
        "must be a positive whole number, not {number!r}",
        "must be a positive whole number, {number!r}",
        "tests/inputs/test_texts.py tests/inputs/test_encoder.py",
    ),
    Listed(
        "a token on two words belongs to the second",
        "inputs/encoding.py",
        "words.append(hits[0] if hits else None)",
        "words.append(hits[-1] if hits else None)",
        "tests/inputs/test_encoding.py tests/inputs/test_encoder.py",
    ),
    Listed(
        "a piece of the text that stands there twice means the first",
        "models/positions.py",
        "if count != 1:",
        "if not count:",
        "tests/models/test_positions.py",
    ),
    Listed(
        "a piece of the text means its last token",
        "models/positions.py",
        '            return index\n    raise InputError(f"no token',
        '            found = index\n    return found\n    raise InputError(f"no token',
        "tests/models/test_positions.py",
    ),
    Listed(
        "a batch may be as large as the token budget and one text more",
        "inputs/batching.py",
        "tokens > budget or padding",
        "tokens - longest > budget or padding",
        "tests/inputs/test_batching.py",
    ),
    Listed(
        "a batch must be smaller than the token budget",
        "inputs/batching.py",
        "tokens > budget or padding",
        "tokens >= budget or padding",
        "tests/inputs/test_batching.py",
    ),
    Listed(
        "the batch is cut to a third when memory runs out",
        "models/map_batches.py",
        "smaller = max(min(model.batch_tokens, tokens) // 2, longest)",
        "smaller = max(min(model.batch_tokens, tokens) // 3, longest)",
        "tests/models/test_map_batches.py",
    ),
    # --- tasks and targets
    Listed(
        "the longest answer is one token longer",
        "models/tasks.py",
        ".tril(LONGEST_ANSWER - 1)",
        ".tril(LONGEST_ANSWER)",
        "tests/models/test_tasks.py",
    ),
    Listed(
        "no answer is never given",
        "models/tasks.py",
        "if encoding.special[0] and own[0].sum() > sums.max():",
        "if False:",
        "tests/models/test_tasks.py",
    ),
    Listed(
        "an answer ends before its last token",
        "models/predictions.py",
        "encoding.offsets[end][1]]",
        "encoding.offsets[end][0]]",
        "tests/models/test_tasks.py",
    ),
    Listed(
        "an answer without a text ends before its last token",
        "models/predictions.py",
        "encoding.tokens[start : end + 1]",
        "encoding.tokens[start:end]",
        "tests/models/test_tasks.py",
    ),
    Listed(
        "a token is taken as it is written before it is taken as the start of a word",
        "models/targets.py",
        'else [" " + text, text]',
        'else [text, " " + text]',
        "tests/models/test_targets.py tests/pipeline/test_options.py",
    ),
    Listed(
        "layer 0 is accepted",
        "models/layers.py",
        "if not 1 <= number <= count:",
        "if not 0 <= number <= count:",
        "tests/models/test_layers.py",
    ),
    # --- evaluation
    Listed(
        "the published length is another",
        "evaluation/faithfulness.py",
        "PUBLISHED_LENGTH = 90",
        "PUBLISHED_LENGTH = 91",
        "tests/evaluation/test_faithfulness.py tests/evaluation/test_runs.py",
    ),
    Listed(
        "the change of a regression's output keeps its sign where tokens are taken out",
        "evaluation/faithfulness.py",
        "np.abs(before - changed) if regression else before - changed",
        "before - changed",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the change of a regression's output keeps its sign where tokens are kept",
        "evaluation/faithfulness.py",
        "np.abs(before - kept) if regression else before - kept",
        "before - kept",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the interval is one of 90%",
        "evaluation/faithfulness.py",
        "[0.025, 0.975]",
        "[0.05, 0.95]",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the bootstrap draws one text for each sample",
        "evaluation/faithfulness.py",
        "values[draws].mean(1)",
        "values[draws[:, 0]]",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the bootstrap draws every text once",
        "evaluation/faithfulness.py",
        "values[draws].mean(1)",
        "values[draws * 0 + np.arange(draws.shape[1])].mean(1)",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the paired test has one side",
        "evaluation/faithfulness.py",
        "wilcoxon(difference).pvalue",
        'wilcoxon(difference, alternative="greater").pvalue',
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "methods are measured by the published protocol unless asked otherwise",
        "evaluation/runs.py",
        '    folder: Path | None = None,\n    protocol: Protocol = "default",',
        '    folder: Path | None = None,\n    protocol: Protocol = "published",',
        "tests/evaluation/test_runs.py tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "a run is by the published protocol unless asked otherwise",
        "evaluation/runs.py",
        '        protocol: Protocol = "default",',
        '        protocol: Protocol = "published",',
        "tests/evaluation/test_runs.py tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "alignment is measured by the published protocol unless asked otherwise",
        "paper/alignment/alignment.py",
        '    protocol: Protocol = "default",',
        '    protocol: Protocol = "published",',
        "tests/paper/alignment",
    ),
    Listed(
        "a task with labels is taken for a regression",
        "evaluation/faithfulness.py",
        "if regression != (not task.labels)",
        "if regression != bool(task.labels)",
        "tests/evaluation/test_faithfulness.py tests/evaluation/test_runs.py",
    ),
    Listed(
        "a text-pair task is a regression",
        "evaluation/datasets.py",
        'GlueTask("stsb", ("sentence1", "sentence2"), (), "stsb")',
        'GlueTask("stsb", ("sentence1", "sentence2"), ("no", "yes"), "stsb")',
        "tests/evaluation/test_datasets.py",
    ),
    Listed(
        "constant outputs correlate fully",
        "evaluation/faithfulness.py",
        "0.0 if flat else",
        "1.0 if flat else",
        "tests/evaluation/test_faithfulness.py",
    ),
    Listed(
        "the input norm is normalised by its sum in alignment",
        "paper/alignment/alignment.py",
        'SOFTMAX = ("logat", "normxlogit", "input-norm", "random")',
        'SOFTMAX = ("logat", "normxlogit", "random")',
        "tests/paper/alignment",
    ),
    Listed(
        "scores that are not finite are measured in alignment",
        "paper/alignment/alignment.py",
        "        check_finite(method, request, scores.transpose(0, 3, 2, 1)[real])  # (N, L, K)\n",
        "",
        "tests/paper/alignment",
    ),
    Listed(
        "a determiner may stand behind its noun",
        "paper/evidence.py",
        'if word.dep_ == "det" and noun.i > word.i else ()',
        'if word.dep_ == "det" else ()',
        "tests/paper/test_evidence.py",
    ),
    Listed(
        "pairs whose rest differs are kept",
        "paper/sentence_pairs.py",
        "or len(theirs) > 1 or rest[0] != rest[1]:",
        "or len(theirs) > 1:",
        "tests/paper/test_sentence_pairs.py",
    ),
    Listed(
        "long texts are read at their ends only",
        "pipeline/long_texts.py",
        "starts = [*range(0, len(content) - room, step), len(content) - room]",
        "starts = [0, len(content) - room]",
        "tests/pipeline/test_long_texts.py",
    ),
    Listed(
        "a token's prediction comes from the first window that holds it, not from the one where it is in the middle",
        "pipeline/long_texts.py",
        "(margin, -window, index))",
        "(-window, -window, index))",
        "tests/pipeline/test_long_texts.py",
    ),
    Listed(
        "the diagnostics of a long text are those of its first window",
        "pipeline/long_texts.py",
        "max((r.diagnostics[name] for r in results), key=lambda v: float(np.max(np.abs(v))))",
        "first.diagnostics[name]",
        "tests/pipeline/test_long_texts.py",
    ),
    Listed(
        "each window of a long text explains its own prediction",
        "pipeline/long_texts.py",
        "options = replace(options, target=said.id)",
        "pass",
        "tests/pipeline/test_long_texts.py",
    ),
)

"""Bad command lines: the words, and a piece of the one line that is the answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """What follows `normxlogit`, or `python -m paper` and more; a piece of the message; what is piped in."""

    words: tuple[str, ...]
    says: str
    stdin: bytes | None = None

    @property
    def name(self) -> str:
        return " ".join(self.words).encode("unicode_escape").decode() + (
            "" if self.stdin is None else f" < {self.stdin!r}"
        )


def line(words: str, says: str, *more: str, stdin: bytes | None = None) -> Line:
    """Return a row: words between spaces, and more that hold spaces or nothing."""
    return Line((*words.split(), *more), says, stdin)


NOT_UTF8 = "caf\udce9"

EXPLAIN = [
    line("explain", "no text"),
    line("explain", "input 0 is empty", "  "),
    line("explain", "holds half a character", NOT_UTF8),
    line("explain", "standard input is not UTF-8", stdin=b"fine\n\xff\n"),
    line("explain --file nowhere.txt", "cannot read nowhere.txt: No such file"),
    line("explain --file docs", "cannot read docs: Is a directory"),
    line("explain --file latin.txt", "latin.txt is not UTF-8 text"),
    line("explain --file texts.txt --output ./docs/../texts.txt", "is the file that is read"),
    line("explain x --output docs", "cannot write docs: it is a folder"),
    line("explain x --output no/such/x.json", "cannot write no/such/x.json"),
    line("explain x --output x.parquet", "cannot write .parquet files; end --output in one of .txt, .md, .log, .json"),
    line("explain x --words --format csv", "a row for each token"),
    line("explain x --colour red", "No such option"),
    line("explain x --layers 1,,2", '--layers takes "all" or numbers'),
    line("explain x --target nope", "no label 'nope'"),
    line("explain x --target 9", "index 9 is outside"),
    line("explain x --target positive --contrast positive", "is also the contrast"),
    line("explain x --layers 9", "no layer 9"),
    line("explain x --layers", '--layers takes "all" or numbers', ""),
    line("explain x --method lime:samples=many", "samples must be a whole number"),
    line("explain --model masked --all-labels", "the whole vocabulary", "the [MASK]"),
    line("explain x --target positive --all-labels", "give one of the two"),
    line("explain x --model ./nowhere", "./nowhere: no such model folder"),
    line("explain x --model nobody/nothing", "cannot load nobody/nothing"),
    line("explain x --model empty-folder", "cannot load empty-folder"),
    line("explain x --model a --model b", "--model is given 2 times"),
]

CHECKPOINTS = [
    line(f"explain x --model {folder} --output out.json", says)
    for folder, says in {
        "truncated-weights": "the model cannot be read",
        "empty-weights": "model.safetensors is empty; download it again",
        "pointer-weights": "model.safetensors is a pointer of Git LFS",
        "no-weights": "model.safetensors",
        "headless": "lacks classifier.bias, classifier.weight",
        "wide-config": "has other shapes of",
        "deep-config": "lacks bert.encoder.layer.3",
        "nan-config": "answers with NaN",
        "empty-config": "config.json is empty",
        "no-config": "cannot load no-config",
        "one-based-labels": "must name the outputs from 0 up",
        "null-labels": "must name the outputs from 0 up",
        "steering-class": "is a bare encoder",
        "other-class": "has no head of a supported kind",
        "no-class": "does not say which head it has",
        "unknown-type": "cookery",
        "empty-tokenizer": "tokenizer.json is empty",
        "truncated-tokenizer": "its tokenizer cannot be read",
        "no-tokenizer": "no-tokenizer has no tokenizer",
        "bare": "is a bare encoder",
    }.items()
]
CHECKPOINTS += [line("explain x --model twin-labels --target a", "more than one label 'a'")]
CHECKPOINTS += [line("explain x --model steering-labels --target nope", "no label 'nope'; the model knows")]

WRITING = [
    line("generate x", "name a language model with --model"),
    line("generate --model gpt", "no prompt"),
    line("generate --model gpt", "empty", ""),
    line("generate x --model gpt --gguf-file nope.gguf", "cannot load gpt"),
    line("generate x --model gpt --max-new-tokens 0", "Invalid value for '--max-new-tokens'"),
    line("generate x --model gpt --chat", "chat template"),
    line("generate x --model gpt --output x.parquet", "cannot write .parquet files"),
    line("cite docs --question who", "name a language model"),
    line("cite docs --model gpt", "give a question"),
    line("cite --model gpt --question who", "no documents"),
    line("cite nowhere.txt --model gpt --question who", "cannot read nowhere.txt"),
    line("cite empty-folder --model gpt --question who", "file in this folder"),
    line("cite docs --model gpt --question who --verify -1", "--verify takes a number"),
    line("cite docs --model gpt --question who --verify=²", "--verify takes a number"),
    line("cite docs/a.txt --model gpt --question who --output docs/a.txt", "is the file that is read"),
    line("cite docs --model gpt --question who --answer The", "there is no file The"),
    line("cite docs --model gpt --question who --answer texts.txt --answer docs/a.txt", "--answer is given 2 times"),
    line("cite docs --model gpt --messages chat.json", "leave out DOCUMENTS, --question and --system"),
    line("cite --model gpt --messages nowhere.json", "cannot read nowhere.json"),
    line("cite --model gpt --messages texts.txt", "texts.txt: not JSON"),
    line("cite --model gpt --messages list.json", "list.json: expected a list of messages"),
    line("cite --model gpt --messages chat.json --turn 0 --answer texts.txt", "turn= picks an answer"),
    line("cite --model gpt --messages chat.json --turn 7", "no turn 7"),
    line("cite --model gpt --messages chat.json --output chat.json", "is the file that is read"),
]

CORPORA = [
    line("attribute rows.jsonl", "Missing option '--output'"),
    line("attribute rows.jsonl --output", "is not a folder or URL", ""),
    line("attribute rows.jsonl --output texts.txt", "cannot write texts.txt"),
    line("attribute nowhere.jsonl --output out", "nowhere.jsonl"),
    line("attribute rows.jsonl --output out --num-workers 2", "are for --engine ray"),
    line("attribute rows.jsonl --output out --target x --all-labels", "give one of the two"),
    line("attribute rows.jsonl --output out --column text=nope", "no column 'nope'"),
    line("attribute rows.jsonl --output out --job answers --words", "--words is for --job predictions"),
    line("attribute rows.jsonl --output out --job conversations --parts word", "--parts is for --job completions"),
    line("attribute rows.jsonl --output out --job completions --target 0", "--target is for --job predictions"),
    line("attribute rows.jsonl --output out --column answer=answer", "--column answer=... is for --job answers"),
    line("attribute rows.jsonl --output out --verify auto", "--verify is for --job answers or --job conversations"),
    line("summarize nowhere --output x.csv", "not as CSV"),
    line("summarize nowhere", "no corpus run there"),
]

LABELLED = "--dataset labelled.jsonl --columns sentence"
MEASURING = [
    line("evaluate faithfulness --dataset nope", "nope"),
    line("evaluate faithfulness --dataset sst2 --data-dir empty-folder", "empty-folder"),
    line("evaluate faithfulness --dataset labelled.jsonl --columns nope", "no column 'nope'"),
    line(f"evaluate faithfulness {LABELLED} --label-column nope", "nope"),
    line("evaluate faithfulness --dataset rows.jsonl --columns text --label-column text", "cannot tell which labels"),
    line(f"evaluate faithfulness {LABELLED} --model gpt --methods random", "causal-lm"),
    line(f"evaluate faithfulness {LABELLED} --methods random --output texts.txt", "texts.txt is a file"),
    line("evaluate frontier --checkpoint nope", "--checkpoint takes NAME:DATASET"),
    line("python -m paper alignment", "Missing option '--model'"),
    line("python -m paper alignment --model masked --data rows.jsonl", "rows.jsonl, row 0"),
    line("python -m paper alignment --model masked --data-dir empty-folder", "empty-folder"),
    line("evaluate generation --model gpt", "name a JSONL file"),
    line("evaluate generation --data rows.jsonl", "name a language model"),
    line("evaluate generation --model gpt --data rows.jsonl", "rows.jsonl"),
    line("python -m paper nonsense", "No such command"),
    line("python -m paper table1", "name the models"),
    line("python -m paper table1 --checkpoint x", "--checkpoint takes MODEL:TASK=FOLDER"),
    line("python -m paper table1 --limit many", "--limit takes a number"),
    line("python -m paper table1 --checkpoint B:sst2=bert --data-dir empty-folder --methods nope", "no method named"),
    line("python -m paper finetune", "Missing option"),
    line("python -m paper finetune --task nope --model bert --output out", "nope"),
]

LINES = [*EXPLAIN, *CHECKPOINTS, *WRITING, *CORPORA, *MEASURING]

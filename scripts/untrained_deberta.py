"""Write a small DeBERTa that was never trained, with the word embeddings of a model that was, ready to be fine-tuned.

    python scripts/untrained_deberta.py MINILM deberta-untrained
    python -m paper finetune --task sst2 --model deberta-untrained --output deberta-sst2 --data-dir DATA ...

Its three layers with disentangled attention start from random weights. It is the third family of
`docs/reproduction.md`, for machines that have no DeBERTa with weights.
"""

import argparse

import torch
from transformers import AutoModel, AutoTokenizer, DebertaV2Config, DebertaV2ForSequenceClassification

LAYERS, SEED = 3, 0


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", help="folder of a BERT whose word embeddings and tokenizer are taken")
    parser.add_argument("output", help="folder to write")
    arguments = parser.parse_args()
    torch.manual_seed(SEED)
    bert = AutoModel.from_pretrained(arguments.embeddings)
    shape = bert.config
    config = DebertaV2Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        num_hidden_layers=LAYERS,
        num_attention_heads=shape.hidden_size // 64,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings,
        relative_attention=True,
        position_buckets=64,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
        pad_token_id=shape.pad_token_id,
        num_labels=2,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    model = DebertaV2ForSequenceClassification(config)
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(bert.get_input_embeddings().weight)
    model.save_pretrained(arguments.output)
    AutoTokenizer.from_pretrained(arguments.embeddings).save_pretrained(arguments.output)


if __name__ == "__main__":
    main()

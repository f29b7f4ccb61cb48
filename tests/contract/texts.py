"""Texts as nobody writes them by hand, and some as everybody does."""

from hypothesis import strategies as st

from tests import tiny

KNOWN = [word for word in tiny.WORDS if word.isalpha()]

NAMED = ["the movie is not good", "Bad!", " ", "", "\n", "\t\n ", "\u2028", "\u200b", "\u00ad", "\ufeff", "\x00"]
NAMED += ["\x1b[31mred\x07", "\u0301", "e\u0301\u0323\u0301 cafe\u0301", "İstanbul ŞİŞLİ ﬁne ½ ㎏ ǆ"]
NAMED += ["😀", "👩‍👩‍👧 👍🏽 good 🇩🇪", "שלום עולם", "مرحبا \u202e بالعالم good", "今天天气很好", "ไทยไม่มีช่องว่าง"]
NAMED += ["[CLS]", "[SEP] [SEP]", "[PAD] good [PAD]", "[UNK]", "[MASK]", "[CLS][SEP][PAD]", "a" * 300]
NAMED += ["good\u2028bad\u2029awful\x85here", "don't state-of-the-art 3.14 a.b,c", "word " * 39]
NAMED += [" the  movie \r\n was\tgood ", "the good bad " * 3334]
"""Each of these was, or could have been, an input that some tokenizer or head trips over."""

words = st.lists(st.sampled_from([*KNOWN, "Good", "BAD", "unheard", ".", ",", "!"]), min_size=1, max_size=12).map(
    " ".join
)
anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
pieces = st.lists(st.sampled_from([*NAMED[:-1], *KNOWN]), min_size=1, max_size=4).map("".join)

texts = st.one_of(words, st.sampled_from(NAMED), anything, pieces)
"""Any text."""

batches = st.lists(texts, min_size=2, max_size=4)


def chat(*turns):
    """Return the messages of a conversation, of pairs of a role and what was said."""
    return [{"role": role, "content": content} for role, content in turns]

"""A small valid `tokenizer.json`: byte-level BPE with the special pieces of the Audio8 prompt."""

from __future__ import annotations

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

PAIRS = "Ġ t|h e|i n|Ġ a|r e|o n|Ġt he|e r|a t|Ġ s|o u|Ġ w|n d|Ġ o|e s|i s|o r|in g|Ġa nd|l l|v e|Ġ h|e n|Ġ c|o m"
# Digits in groups of up to three, punctuation apart from letters: the LLaMA-3 rule, as the published tokenizer.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPEAKERS = 2


def tokenizer_json(text_vocab: int, eos_id: int) -> str:
    """The tokenizer file as text. Ids below `text_vocab`: pad 0, the special pieces from `eos_id` - 1 on, then all
    256 bytes and a few merges on the free ids. Needs text_vocab >= eos_id + 5 and >= 288."""
    special = {
        "<|pad|>": 0,
        "<|im_start|>": eos_id - 1,
        "<|im_end|>": eos_id,
        "<|voice|>": eos_id + 1,
    }
    special |= {f"<|speaker:{n}|>": eos_id + 2 + n for n in range(SPEAKERS)}
    taken = set(special.values())
    free = iter(i for i in range(text_vocab) if i not in taken)
    vocab = dict(special)
    for piece in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[piece] = next(free)
    merges: list[tuple[str, str]] = []
    for pair in PAIRS.split("|"):
        left, right = pair.split(" ")
        merges.append((left, right))
        vocab[left + right] = next(free)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    return str(tokenizer.to_str())

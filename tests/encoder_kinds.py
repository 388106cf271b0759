"""Every kind of encoder that tests make: its configuration, special tokens and tokenizer."""

import json

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

ROOM = 128  # tokens
BERTS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTAS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
KINDS = {  # names of the configuration's class, special tokens in the order of their ids, what differs from BERT
    "bert": ("Bert", BERTS, {}),
    "distilbert": ("DistilBert", BERTS, {}),
    "electra": ("Electra", BERTS, {"embedding_size": 8}),
    "mpnet": ("MPNet", ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"], {"max_position_embeddings": ROOM + 2}),
    "roberta": ("Roberta", ROBERTAS, {"max_position_embeddings": ROOM + 2, "type_vocab_size": 1, "pad_token_id": 1}),
    "deberta-v3": (
        "DebertaV2",
        BERTS,
        {
            "relative_attention": True, "position_buckets": 16, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
            "position_biased_input": False, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
        },
    ),
    "modernbert": ("ModernBert", BERTS, {"local_attention": 8, "pad_token_id": 0}),
}  # fmt: skip


def make_tokenizer(kind: str, texts: list[str], size: int = 400) -> PreTrainedTokenizerFast:
    """As the kind's own, its vocabulary of about ``size`` learned from ``texts``."""
    sizes = {"vocab_size": size, "special_tokens": KINDS[kind][1]}
    if kind in ("roberta", "modernbert"):
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        backend, trainer = Tokenizer(models.BPE()), trainers.BpeTrainer(**sizes, initial_alphabet=alphabet)
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif kind == "deberta-v3":
        backend, trainer = Tokenizer(models.Unigram()), trainers.UnigramTrainer(**sizes, unk_token="[UNK]")
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        backend, trainer = Tokenizer(models.WordPiece(unk_token="[UNK]")), trainers.WordPieceTrainer(**sizes)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.train_from_iterator(texts, trainer)
    learned = json.loads(backend.to_str())["model"]
    if kind == "roberta":
        return transformers.RobertaTokenizer(vocab=learned["vocab"], merges=[tuple(pair) for pair in learned["merges"]])
    if kind == "modernbert":  # has no class of its own, and leaves the space before a word in its offsets
        backend.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
        return PreTrainedTokenizerFast(tokenizer_object=backend, **dict(zip(names, BERTS, strict=True)))
    if kind == "deberta-v3":
        return transformers.DebertaV2Tokenizer(vocab=[tuple(piece) for piece in learned["vocab"]])
    tokenizer = transformers.MPNetTokenizer if kind == "mpnet" else transformers.BertTokenizer
    return tokenizer(vocab=learned["vocab"], do_lower_case=False)

"""A language model with random weights and a few words. Some words are whole programs, so that its answers are worth different rewards."""

import pathlib

import tokenizers
import torch
import transformers
from programs import FAST, WRONG, fenced

WORDS = ["<pad>", "<end>", "<other>"]
PROGRAMS = [fenced(FAST), fenced(WRONG)]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def write(folder: pathlib.Path) -> None:
    """Writes model and tokenizer. The tokenizer reads every word that it does not know as <other>."""
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<other>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.decoder = tokenizers.decoders.Fuse()
    inner.add_tokens([tokenizers.AddedToken(program, normalized=False) for program in PROGRAMS])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", unk_token="<other>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + len(PROGRAMS), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)

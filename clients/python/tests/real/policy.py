"""A language model with random weights and a few words. Some words are whole programs, so that its answers are worth different rewards."""

import pathlib
from typing import Optional

import tokenizers
import torch
import transformers
from programs import FAST, WRONG, fenced

WORDS = ["<pad>", "<end>", "<other>"]
PROGRAMS = [fenced(FAST), fenced(WRONG)]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def write(folder: pathlib.Path, always: Optional[str] = None) -> None:
    """Writes model and tokenizer. The tokenizer reads every word that it does not know as <other>. With `always` each answer is this text."""
    programs = PROGRAMS if always is None else [always]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<other>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.decoder = tokenizers.decoders.Fuse()
    inner.add_tokens([tokenizers.AddedToken(program, normalized=False) for program in programs])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<end>", unk_token="<other>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(WORDS) + len(programs), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4096, pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    if always is not None:
        repeat(model, len(WORDS))
    model.save_pretrained(folder)


@torch.no_grad()
def repeat(model: transformers.LlamaForCausalLM, token: int) -> None:
    """Sets the weights so that the token follows all others, and <end> follows the token."""
    for name, weights in model.named_parameters():
        if "norm" not in name:
            # The layers add nothing, so an embedding alone decides what follows.
            weights.zero_()
    reads, writes = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    reads[:, 0] = 1
    reads[token, 0], reads[token, 1] = 0, 1
    writes[token, 0] = writes[WORDS.index("<end>"), 1] = 10

#!/usr/bin/env python3
"""Writes small tokenizers with their settings, and the token ids to which transformers turns texts by them.

    python3 tools/parity/make_tokens.py [crates/policy/tests/fixtures/tokens.json]

crates/policy/tests/it/tokens.rs compares Flopsmith's token ids with them. Needs transformers 5, and no torch.
"""
import json
import pathlib
import sys
import tempfile

import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

# The blanks at the ends, the two forms of é, the tokens within a text and the digits are read differently by different classes.
TEXTS = ["for", " for  for ", "", "<s>for</s> for\n</s>\n[for]", "e\u0301 é 😀", "it's 1234;", "a<|task|> for <|plain|><|more|>b",
         "▁<PRE> for ▁<MID>b▁<EOT>"]

SPECIAL = ["<unk>", "<s>", "</s>", "<|task|>"]


def with_specials(model):
    inner = tokenizers.Tokenizer(model)
    inner.add_special_tokens(SPECIAL)
    return inner


def numbered(words, merges):
    return {word: i for i, word in enumerate(words + ["".join(merge) for merge in merges])}


def files():
    """The tokenizer of bytes and that of characters, as `tokenizer.json`. Both have the token `<|plain|>` in their vocabulary only."""
    merges = [("f", "o"), ("fo", "r"), ("Ġ", "for"), ("1", "2"), ("Ġ", "1")]
    of_bytes = with_specials(models.BPE(numbered(SPECIAL + ["<|plain|>"] + sorted(pre_tokenizers.ByteLevel.alphabet()), merges), merges))
    of_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    of_bytes.decoder = decoders.ByteLevel()
    merges = [("f", "o"), ("fo", "r"), ("▁", "for"), ("▁", "▁for")]
    words = SPECIAL + ["<|plain|>"] + [f"<0x{byte:02X}>" for byte in range(256)] + list("▁abfioprst<>|[];/'1234")
    # As the files of Llama 2.
    of_characters = with_specials(models.BPE(numbered(words, merges), merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    of_characters.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    of_characters.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)])
    return {"bytes": json.loads(of_bytes.to_str()), "characters": json.loads(of_characters.to_str())}


def part(made):
    """A part of `tokenizer.json`."""
    return json.loads(made.__getstate__())


BEGIN = part(processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]))
END = part(processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]))
FIRST = part(pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False))
DIGITS = part(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))

NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
QWEN2 = dict(file="bytes", config={"model_type": "qwen2"}, settings={"tokenizer_class": "Qwen2Tokenizer"})
GPT2 = dict(file="bytes", settings={"tokenizer_class": "GPT2Tokenizer"})
BYTES = dict(file="bytes", settings={"tokenizer_class": "PreTrainedTokenizerFast"})
LLAMA = dict(file="characters", settings={"tokenizer_class": "LlamaTokenizerFast"})
CODE_LLAMA = dict(file="characters", settings={"tokenizer_class": "CodeLlamaTokenizer"})
CHARACTERS = dict(file="characters", settings={"tokenizer_class": "TokenizersBackend"})
BYTES_OF_LLAMA = dict(file="bytes", settings={"tokenizer_class": "LlamaTokenizer"})
CLASSES = {
    "Qwen2's class": QWEN2, "GPT-2's class": GPT2, "a class of bytes": BYTES, "Llama's class": LLAMA, "Code Llama's class": CODE_LLAMA,
    "a class of characters": CHARACTERS, "Llama's class for bytes": BYTES_OF_LLAMA,
}


def case(base, settings=None, **rest):
    """A case with further settings; `change` replaces parts of `tokenizer.json`, `older` is `special_tokens_map.json`."""
    return base | {"settings": NAMES | base["settings"] | (settings or {})} | rest


def added(content, **how):
    usual = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {"content": content} | usual | how


def in_file(base, tokens, **how):
    """The part of `tokenizer.json` with these added tokens; `how` holds for `</s>` and `<|task|>`."""
    vocab = files()[base["file"]]["model"]["vocab"]
    entries = [added(token, **(how if token in ("</s>", "<|task|>") else {})) for token in tokens]
    return {"added_tokens": [{"id": vocab.get(entry["content"], len(vocab))} | entry for entry in entries]}


def described():
    """Cases in which the files of a folder describe tokens differently, or name other tokens."""
    classes = {name: base for name, base in CLASSES.items() if base not in (GPT2, BYTES_OF_LLAMA)}
    for name, base in classes.items():
        whole = {str(i): added(token) for i, token in enumerate(SPECIAL)}
        for flag in ("lstrip", "rstrip", "single_word", "normalized", "special"):
            how = {flag: flag != "special"}
            yield f"{name}, {flag} by the settings", case(base, {"added_tokens_decoder": whole | {"2": added("</s>", **how)}})
            yield f"{name}, {flag} of a token without a name", case(base, {"added_tokens_decoder": whole | {"3": added("<|task|>", **how)}})
            # tokenizers 0.23 then writes such tokens into texts.
            if base is not CHARACTERS or flag != "normalized":
                yield f"{name}, {flag} by the file", case(base, {"added_tokens_decoder": whole}, change=in_file(base, SPECIAL, **how))
            yield f"{name}, {flag} by the file alone", case(base, change=in_file(base, SPECIAL, **how))
        less = {i: token for i, token in whole.items() if i != "3"}
        yield f"{name}, a token that the settings lack", case(base, {"added_tokens_decoder": less})
        yield f"{name}, settings without tokens", case(base, {"added_tokens_decoder": {}})
        more = in_file(base, SPECIAL + ["<|more|>"])
        yield f"{name}, more tokens in the file", case(base, change=more)
        yield f"{name}, more tokens in the file that the settings lack", case(base, {"added_tokens_decoder": whole}, change=more)
        twice = [{"__type": "AddedToken"} | added("<|plain|>", rstrip=True)]
        yield f"{name}, a token named twice", case(base, {"mask_token": "<|plain|>", "extra_special_tokens": twice})
        # Lists of the older file.
        yield f"{name}, a list of the older file", case(base, older={"additional_special_tokens": ["<|more|>"]})
        yield f"{name}, lists of both files", case(base, {"additional_special_tokens": ["<|plain|>"]}, older={"additional_special_tokens": ["<|more|>"]})
        yield f"{name}, newer lists of both files", case(base, {"extra_special_tokens": ["<|plain|>"]}, older={"extra_special_tokens": ["<|more|>"]})
    gaps = ("prefix_token", "middle_token", "suffix_token", "eot_token", "fill_token")
    yield "Code Llama's class, no tokens for gaps", case(CODE_LLAMA, dict.fromkeys(gaps))
    yield "Code Llama's class, tokens for gaps in the file", case(CODE_LLAMA, change=in_file(CODE_LLAMA, SPECIAL + ["▁<EOT>"]))
    yield "Code Llama's class, a begin token that is new", case(CODE_LLAMA, {"bos_token": "<|more|>"})


def cases():
    for name, base in CLASSES.items():
        # The tokens around a text.
        yield name, case(base)
        yield f"{name}, a begin token", case(base, change={"post_processor": BEGIN})
        yield f"{name}, a flag for the begin token", case(base, {"add_bos_token": True})
        yield f"{name}, a flag against the begin token", case(base, {"add_bos_token": False}, change={"post_processor": BEGIN})
        yield f"{name}, flags for both tokens", case(base, {"add_bos_token": True, "add_eos_token": True}, change={"post_processor": BEGIN})
        yield f"{name}, an end token and a flag against it", case(base, {"add_eos_token": False}, change={"post_processor": END})
        yield f"{name}, a flag for a token that is null", case(base, {"add_bos_token": True, "bos_token": None})
        # How a text is split.
        yield f"{name}, a blank before texts", case(base, {"add_prefix_space": True})
        yield f"{name}, no blank before texts", case(base, {"add_prefix_space": False})
        # Tokens that only the settings name.
        more = {"261": added("<|more|>"), "4": added("<|plain|>")}
        yield f"{name}, more tokens", case(base, {"added_tokens_decoder": {str(i): added(t) for i, t in enumerate(SPECIAL)} | more})
        yield f"{name}, a pad token of its own", case(base, {"pad_token": "<|more|>"})
        yield f"{name}, a token that takes blanks", case(base, {"pad_token": {"__type": "AddedToken"} | added("<|plain|>", lstrip=True)})
        yield f"{name}, special tokens of its own", case(base, {"additional_special_tokens": ["<|more|>", "<|task|>"]})
        yield f"{name}, special tokens by names", case(base, {"extra_special_tokens": {"image_token": "<|more|>"}, "box_token": "<|plain|>"})
        yield f"{name}, a token of the older file", case(base, older={"pad_token": added("<|more|>")})
        yield f"{name}, special tokens as texts", case(base, {"split_special_tokens": True})
    for name, base in {"Llama's class": LLAMA, "Code Llama's class": CODE_LLAMA, "a class of characters": CHARACTERS}.items():
        for legacy in (True, False, None):
            yield f"{name}, legacy {legacy}", case(base, {"legacy": legacy})
        yield f"{name}, legacy without a blank", case(base, {"legacy": True, "add_prefix_space": False})
        yield f"{name}, a newer file", case(base, change={"normalizer": None, "pre_tokenizer": FIRST})
        yield f"{name}, a newer file with legacy", case(base, {"legacy": True}, change={"normalizer": None, "pre_tokenizer": FIRST})
    for name, base in {"Qwen2's class": QWEN2, "GPT-2's class": GPT2, "a class of bytes": BYTES}.items():
        yield f"{name}, composed characters", case(base, change={"normalizer": part(normalizers.NFC())})
        yield f"{name}, digits one by one", case(base, change={"pre_tokenizer": DIGITS})
        yield f"{name}, another class named", case(base, {"tokenizer_class": "LlamaTokenizer"})
    yield from described()
    yield "no settings", dict(file="bytes", settings={}, change={"post_processor": BEGIN})


def opened(place, whole):
    """The tokenizer that transformers makes of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "tokenizer.json").write_text(json.dumps(whole[place["file"]] | place.get("change", {})))
        (folder / "tokenizer_config.json").write_text(json.dumps(place["settings"]))
        if "older" in place:
            (folder / "special_tokens_map.json").write_text(json.dumps(place["older"]))
        # Room for the tokens that are added.
        place["config"] = {"model_type": "llama", "vocab_size": 400} | place.get("config", {})
        (folder / "config.json").write_text(json.dumps(place["config"]))
        return transformers.AutoTokenizer.from_pretrained(str(folder))


def dense(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "crates/policy/tests/fixtures/tokens.json")
    whole = files()
    made = []
    for name, place in cases():
        reader = opened(place, whole)
        read = []
        for text in TEXTS:
            plain = reader(text, add_special_tokens=False)["input_ids"]
            read.append([reader(text)["input_ids"], plain, reader.decode(plain, skip_special_tokens=True)])
        made.append({"name": name} | place | {"read": read})
    parts = {"transformers": transformers.__version__, "files": whole, "texts": TEXTS}
    lines = [f"{json.dumps(key)}: {dense(value)}," for key, value in parts.items()]
    rows = ",\n".join(dense(one) for one in made)
    out.write_text("{\n" + "\n".join(lines) + "\n\"cases\": [\n" + rows + "\n]\n}\n")


if __name__ == "__main__":
    main()

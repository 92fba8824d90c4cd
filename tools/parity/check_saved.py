#!/usr/bin/env python3
"""Opens with transformers and PEFT the folders that `cargo run --release -p flopsmith-policy --example parity_write FOLDER` wrote, and compares.

    python3 tools/parity/check_saved.py FOLDER

Checks log-probabilities, or the reward of a reward model (to 1e-4), token ids and texts. Exit code 1 means a difference. Needs torch, transformers 5 and peft.
"""
import json
import pathlib
import sys

import peft
import safetensors.numpy
import torch
import transformers


def opened_by_peft(kind, folder):
    """The adapter in `folder` on its base model; PEFT has to use each of its tensors and miss none."""
    name = json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"]
    base = kind.from_pretrained(name, num_labels=1) if "SequenceClassification" in kind.__name__ else kind.from_pretrained(name)
    model = peft.PeftModel.from_pretrained(base, folder)
    saved = set(safetensors.numpy.load_file(folder / "adapter_model.safetensors"))
    wanted = set(peft.get_peft_model_state_dict(model))
    assert saved == wanted, (saved ^ wanted)
    return model


def main():
    worst = 0.0
    for folder in sorted(p.parent for p in pathlib.Path(sys.argv[1]).glob("*/expected.json")):
        expected = json.loads((folder / "expected.json").read_text())
        judges = expected["reward"] is not None
        kind = transformers.AutoModelForSequenceClassification if judges else transformers.AutoModelForCausalLM
        stored = json.loads((folder / "config.json").read_text())["dtype"] if (folder / "config.json").exists() else "adapter"
        if expected["adapter"]:
            model = opened_by_peft(kind, folder)
        else:
            model, info = kind.from_pretrained(folder, output_loading_info=True)
            if model.config.dtype == torch.bfloat16:
                # The expected values come from these numbers in single-precision arithmetic.
                model = kind.from_pretrained(folder, dtype=torch.float32)
            assert not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        with torch.no_grad():
            logits = model.eval()(torch.tensor([expected["ids"]])).logits[0].double()
        got = logits if judges else torch.log_softmax(logits, -1)
        wanted = [expected["reward"]] if judges else expected["logprobs"]
        difference = (got - torch.tensor(wanted, dtype=torch.double)).abs().max().item()
        worst = max(worst, difference)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        assert len(tokenizer) == expected["tokens"], (len(tokenizer), expected["tokens"])
        assert [tokenizer.eos_token_id] == expected["eos"], tokenizer.eos_token_id
        assert judges or expected["adapter"] or model.generation_config.eos_token_id in (expected["eos"], expected["eos"][0])
        for text, ids in expected["texts"]:
            assert tokenizer(text)["input_ids"] == ids, (text, ids, tokenizer(text)["input_ids"])
            assert tokenizer.decode(ids) == text, (text, tokenizer.decode(ids))
        print(f"{folder.name}: {stored}, largest difference {difference:.2e}, {len(expected['texts'])} texts agree")
    sys.exit(worst > 1e-4)


main()

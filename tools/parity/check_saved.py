#!/usr/bin/env python3
"""Opens with transformers what `cargo run --release -p flopsmith-policy --example parity_write FOLDER` wrote, and compares.

    python3 tools/parity/check_saved.py FOLDER

Checks log-probabilities, or the reward of a reward model (to 1e-4), token ids and texts. Exit code 1 when something differs. Needs torch and transformers 5.
"""
import json
import pathlib
import sys

import torch
import transformers


def main():
    worst = 0.0
    for folder in sorted(p for p in pathlib.Path(sys.argv[1]).iterdir() if p.is_dir()):
        expected = json.loads((folder / "expected.json").read_text())
        judges = expected["reward"] is not None
        kind = transformers.AutoModelForSequenceClassification if judges else transformers.AutoModelForCausalLM
        model, info = kind.from_pretrained(folder, output_loading_info=True)
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
        assert judges or model.generation_config.eos_token_id in (expected["eos"], expected["eos"][0])
        for text, ids in expected["texts"]:
            assert tokenizer(text)["input_ids"] == ids, (text, ids, tokenizer(text)["input_ids"])
            assert tokenizer.decode(ids) == text, (text, tokenizer.decode(ids))
        print(f"{folder.name}: {model.config.dtype}, largest difference {difference:.2e}, {len(expected['texts'])} texts agree")
    sys.exit(worst > 1e-4)


main()

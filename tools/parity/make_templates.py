#!/usr/bin/env python3
"""Writes chat templates, and the texts that transformers renders of a conversation by them.

    python3 tools/parity/make_templates.py [crates/policy/tests/fixtures/templates.json]

crates/policy/tests/it/templates.rs compares the Rust renderer with them. Needs transformers 5 and jinja2, and no torch.
"""
import json
import pathlib
import sys
import tempfile

import jinja2
import tokenizers
import transformers

SAID = [
    {"role": "system", "content": " be <fast> & 'right' "},
    {"role": "user", "content": "write a loop: \"für\" 😀\n\twith {{ braces }}"},
    {"role": "assistant", "content": "for (;;) {}"},
    {"role": "user", "content": "another"},
]

TOKENS = {"eos_token": "<|end|>"}
NAMED = "[{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token }}]{{ bos_token is defined }}{{ pad_token is defined }}"

# The templates, with the tokenizer's settings where they matter. With `auto` there are no other settings, and `AutoTokenizer` finds the class,
# by `config` as the model's configuration too; `metaspace` is for a tokenizer of characters in place of bytes.
CASES = {
    # Special tokens.
    "bos that is not there": dict(template="[{{ bos_token }}]{{ eos_token }}"),
    "pad that is not there": dict(template="[{{ pad_token }}{{ unk_token }}{{ sep_token }}{{ cls_token }}{{ mask_token }}]"),
    "bos that is null": dict(template="[{{ bos_token }}]", settings={"bos_token": None}),
    "bos that is defined": dict(template="{% if bos_token is defined %}yes{% else %}no{% endif %}{{ bos_token is none }}",
                                settings={"bos_token": "<|task|>"}),
    "bos that is not defined": dict(template="{% if bos_token is defined %}yes{% else %}no{% endif %}{{ bos_token is none }}"),
    "bos or something": dict(template="{{ bos_token or 'nothing' }}{{ bos_token | default('x') }}{{ bos_token ~ 'y' }}"),
    "bos if there": dict(template="{% if bos_token %}{{ bos_token }}{% endif %}{{ eos_token if eos_token }}"),
    "bos by an object": dict(template="{{ bos_token }}{{ bos_token + 'x' }}",
                             settings={"bos_token": {"__type": "AddedToken", "content": "<|task|>", "lstrip": False, "normalized": False,
                                                     "rstrip": False, "single_word": False, "special": True}}),
    "all tokens": dict(template="{{ unk_token }}{{ sep_token }}{{ cls_token }}{{ mask_token }}{{ pad_token }}",
                       settings={"unk_token": "<|task|>", "sep_token": "<|end|>", "cls_token": "<|task|>", "mask_token": "<|end|>",
                                 "pad_token": "<|end|>"}),
    "a token of its own": dict(template="{{ image_token }}{{ other_token }}",
                               settings={"image_token": "<|task|>", "extra_special_tokens": {"other_token": "<|end|>"}}),
    "a flag is no token": dict(template="[{{ add_bos_token }}]", settings={"add_bos_token": False}),
    "tokens of the older file": dict(template="{{ bos_token }}|{{ eos_token }}|{{ pad_token }}",
                                     older={"bos_token": "<|task|>", "pad_token": {"content": "<|end|>", "lstrip": False, "normalized": False,
                                                                                   "rstrip": False, "single_word": False}}),
    "the older file does not count": dict(template="{{ bos_token }}|{{ eos_token }}", settings={"added_tokens_decoder": {}},
                                          older={"bos_token": "<|task|>"}),
    "the token that is padded with": dict(template="[{{ pad_token }}]", padding="<|task|>"),
    # Special tokens of the tokenizer's class.
    "tokens of Qwen2's class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "Qwen2Tokenizer"}),
    "tokens of Qwen2's class under its other name": dict(auto=True, template=NAMED, settings={"tokenizer_class": "Qwen2TokenizerFast"}),
    "tokens of Qwen2's class but for some": dict(auto=True, template=NAMED,
                                                 settings={"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|end|>", "pad_token": None}),
    "tokens of Qwen2's class and the older file": dict(auto=True, template=NAMED, settings={"tokenizer_class": "Qwen2Tokenizer"},
                                                       older={"pad_token": "<|task|>"}),
    "tokens of Qwen2's class and padding": dict(auto=True, template=NAMED, settings={"tokenizer_class": "Qwen2Tokenizer"}, padding="<|task|>"),
    "tokens of a Qwen2 model": dict(auto=True, template=NAMED, settings={}, config={"model_type": "qwen2"}),
    "tokens of a Qwen2 model with another class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "LlamaTokenizer"},
                                                       config={"model_type": "qwen2"}),
    "tokens of a class in the configuration": dict(auto=True, template=NAMED, settings={},
                                                   config={"model_type": "llama", "tokenizer_class": "Qwen2Tokenizer"}),
    "no tokens of a Llama model": dict(auto=True, template=NAMED, settings={}, config={"model_type": "llama"}, metaspace=True),
    "tokens of Llama's class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "LlamaTokenizerFast"}, config={"model_type": "llama"},
                                    metaspace=True),
    "tokens of Llama's class and padding": dict(auto=True, template=NAMED, settings={"tokenizer_class": "LlamaTokenizer", "bos_token": None},
                                                padding="<|task|>", metaspace=True),
    "no tokens of Llama's class for bytes": dict(auto=True, template=NAMED, settings={"tokenizer_class": "LlamaTokenizer"},
                                                 config={"model_type": "llama"}),
    "tokens of Code Llama's class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "CodeLlamaTokenizer"}, metaspace=True),
    "tokens of Code Llama's class for gaps": dict(auto=True, template="[{{ prefix_token }}|{{ middle_token }}|{{ suffix_token }}|{{ eot_token }}|{{ fill_token }}]",
                                                  settings={"tokenizer_class": "CodeLlamaTokenizer", "eot_token": None}, metaspace=True),
    "tokens of GPT-2's class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "GPT2TokenizerFast"}, config={"model_type": "llama"}),
    "no tokens of an unknown class": dict(auto=True, template=NAMED, settings={"tokenizer_class": "NonesuchTokenizer"}),
    # Variables that are always defined.
    "tools": dict(template="{{ tools is defined }}{{ tools is none }}{% if tools is not none %}tools{% endif %}{{ documents is none }}"),
    "no other variables": dict(template="[{{ date_string }}]{{ date_string is defined }}{{ enable_thinking is defined and not enable_thinking }}"),
    "the prompt for an answer": dict(template="{{ add_generation_prompt }}{% if add_generation_prompt %}>{% endif %}"),
    # Blocks.
    "generation": dict(template="{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
                                "{% else %}{{ m.content }}\n{% endif %}{% endfor %}"),
    "generation with dashes": dict(template="{%- for m in messages -%}\n  {%- generation -%}\n  {{ m.role }} \n  {%- endgeneration -%}\n{%- endfor -%}\n"),
    "generation on lines": dict(template="a\n  {% generation %}\n  b\n  {% endgeneration %}\nc\n"),
    "generation keeps what it sets": dict(template="{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"),
    "generation in a name, a string, a comment": dict(
        template="{% set generation = 'g' %}{{ generation }}{{ '{% generation %}' }}{# {% generation %} #}{% raw %}{% generation %}{% endraw %}"),
    "break": dict(template="{% for m in messages %}{% if loop.index0 == 2 %}{% break %}{% endif %}{{ m.role }};{% endfor %}"),
    "continue": dict(template="{% for m in messages %}{%- if m.role == 'user' -%}{%- continue -%}{%- endif -%}{{ m.role }};{% endfor %}"),
    "lines and blanks": dict(template="{% for m in messages %}\n    {% if loop.first %}\n  x\n    {% endif %}\n {{ m.role }}\n{% endfor %}\n\n"),
    "line ends of Windows": dict(template="{% if true %}\r\na\r\n{% endif %}\r\nb{{ 'x\r\ny' }}\r\n"),
    "kept blanks": dict(template="  {%+ if true %}a{% endif %}  {{- ' b' -}}  c\n"),
    "macros": dict(template="{% macro turn(role, text='-', end=eos_token) %}<{{ role }}>{{ text }}{{ end }}{% endmacro %}"
                            "{{ turn('a') }}{{ turn('b', 'c') }}{{ turn(role='d', end='') }}"),
    "namespaces": dict(template="{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}"
                                "{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.n }}"),
    "a block that is set": dict(template="{% set x %}a{{ 1 }}b{% endset %}[{{ x | trim }}]"),
    "a filter block": dict(template="{% filter upper %}abc{% endfilter %}"),
    "loops": dict(template="{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
                           "{{ loop.previtem.role if loop.previtem is defined }}{% else %}none{% endfor %}"),
    "an empty loop": dict(template="{% for x in [] %}a{% else %}b{% endfor %}{% for x in nothing %}a{% else %}c{% endfor %}"),
    # JSON.
    "JSON": dict(template="{{ messages | tojson }}"),
    "JSON in ASCII": dict(template="{{ messages | tojson(ensure_ascii=True) }}{{ '\x7f\x01\x1f/\\\\' | tojson(ensure_ascii=true) }}"),
    "JSON not in ASCII": dict(template="{{ messages | tojson(ensure_ascii=False) }}{{ '\x7f\x01\x1f/\\\\' | tojson(ensure_ascii=false) }}"),
    "JSON on lines": dict(template="{{ messages | tojson(indent=4) }}{{ {'a': [], 'b': {}, 'c': [[1, []], {'d': none}]} | tojson(indent=2) }}"),
    "JSON with separators": dict(template="{{ {'a': [1, 2], 'b': 3} | tojson(separators=(',', ':')) }}{{ [1, 2] | tojson(indent=1, separators=('; ', ' = ')) }}"),
    "JSON sorted": dict(template="{{ {'b': {'d': 1, 'c': 2}, 'a': [{'z': 1, 'y': 2}]} | tojson(sort_keys=True) }}{{ {'b': 1, 'a': 2} | tojson }}"),
    "JSON by place": dict(template="{{ {'b': 'ü', 'a': 1} | tojson(true, 2, none, true) }}"),
    "JSON with a text to indent by": dict(template="{{ [1, [2]] | tojson(indent='--') }}{{ [1] | tojson(indent=0) }}{{ [1] | tojson(indent=none) }}"),
    "JSON of numbers": dict(template="{{ [1, 1.0, 0.1, 1e16, 1.5e300, 1e-5, 0.0001, -2.5, true, false, none, 123456789012345678901234567890] | tojson }}"),
    "JSON of nothing": dict(template="{{ nothing | tojson }}", fails=True),
    "JSON with a wrong name": dict(template="{{ 1 | tojson(indents=2) }}", fails=True),
    # The clock; the template prints nothing that changes.
    "the date": dict(template="{{ strftime_now('%Y-%m-%d') | length }}{{ strftime_now('%%') }}{{ strftime_now is defined }}"),
    # Printing of values that are not texts.
    "constants": dict(template="{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }}"),
    "numbers": dict(template="{{ 1 }} {{ 1.0 }} {{ 0.5 }} {{ 7 // 2 }} {{ 7 / 2 }} {{ 8 / 2 }} {{ 2 ** 3 }} {{ -7 % 3 }} {{ -7 // 2 }} {{ '3' | int + 1 }} {{ 2.6 | round }}"),
    "lists and maps": dict(template="{{ [1, 'a', none, true, 1.0] }} {{ {'a': 'b', 'c': [1], 2: {}} }} {{ ['it\\'s', '\"', '\"\\'', '\\\\\\n\\t', 'ü\u2028\x07'] }} {{ [] }} {{ {} }}"),
    "a message": dict(template="{{ messages[3] }}{{ messages[1:3] }}"),
    "lists that filters give": dict(template="{{ ['a', 'b'] | list }} {{ 'ab' | list }} {{ messages | map(attribute='role') | list }} {{ 'a b'.split() }} {{ ['b', 'a'] | sort }}"),
    "joined": dict(template="{{ [1, 2] | join(', ') }} {{ ['a', 'b'] | list | length }} {{ 'ab' | list | join('-') }} {{ messages | map(attribute='role') | join('+') }}"),
    "none in a text": dict(template="{{ 'a' ~ none ~ 1 ~ true }}"),
    # Methods and filters.
    "methods": dict(template="{{ ' a '.strip() }}{{ 'xa'.lstrip('x') }}{{ 'ax\\n'.rstrip('\\n') }}{{ 'a b c'.split(' ') | last }}{{ 'a,b'.split(',')[0] }}"
                             "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.replace('b', 'x') }}{{ 'abc'.upper() }}{{ 'ABC'.lower() }}"
                             "{{ 'a b'.title() }}{{ 'abc'.find('c') }}{{ '-'.join(['a', 'b']) }}{{ 'abcb'.count('b') }}{{ 'a b'.capitalize() }}"),
    "methods of maps": dict(template="{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}{{ messages[0].get('tools') }}{{ messages[0].get('x', 'y') }}"
                                     "{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}{{ {'b': 1, 'a': 2} | items | list | length }}"),
    "parts": dict(template="{{ 'think</think>answer'.split('</think>')[-1] }}{{ 'abc'[1:] }}{{ 'abc'[-1] }}{{ messages[1:] | length }}"
                           "{% for m in messages[::-1] %}{{ m.role[0] }}{% endfor %}{{ messages[-1]['content'] }}"),
    "filters": dict(template="{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', '==', 'user') | map(attribute='role') | join(',') }}"
                             "{{ 'abc' | length }}{{ ' x ' | trim }}{{ 'a' | upper }}{{ [3, 1, 2] | sort | join }}{{ [1, 2] | first }}{{ [1, 2] | last }}{{ 'abc' | replace('a', 'b') }}"
                             "{{ nothing | default('d') }}{{ none | default('d', true) }}{{ [1, 2] | sum }}{{ 'a b' | capitalize }}{{ 1 | string }}{{ [1, 1] | unique | list }}{{ [1, 2] | reverse | list }}"),
    "indented": dict(template="{{ 'a\\nb\\n\\nc' | indent(2) }}|{{ 'a\\nb' | indent(2, true) }}"),
    "tests": dict(template="{{ 'a' is string }}{{ 1 is number }}{{ 1.5 is float }}{{ 1 is integer }}{{ [] is iterable }}{{ [] is sequence }}{{ {} is mapping }}{{ none is none }}"
                           "{{ true is boolean }}{{ true is true }}{{ 'a' in 'abc' }}{{ 'a' not in ['b'] }}{{ 2 is even }}{{ 1 is odd }}{{ 'x' is defined }}{{ 'role' in messages[0] }}"
                           "{{ 'tool_calls' in messages[0] }}{{ messages[0].tool_calls is defined }}{{ 'a' is eq('a') }}"),
    "logic": dict(template="{{ 1 if false else 2 }}{{ not none }}{{ '' or 'x' }}{{ 'a' and 'b' }}{{ 1 < 2 }}{{ (1 == 1) != false }}{{ 'a' < 'b' }}"),
    "sums": dict(template="{{ 'a' + 'b' }}{{ [1] + [2] }}{{ 'ab' * 2 }}{{ ('a', 'b') | join }}{{ 1 + 2 * 3 - 4 }}"),
    "formats": dict(template="{{ '{} {}'.format('a', 'b') }}{{ '%s' | format('x') }}"),
    "escapes": dict(template="{{ 'a\\tb\\n\\\\n\\'\\u00e9' }}{{ \"it's\" }}{{ '<b>' | e }}{{ '<b>' }}"),
    "a range": dict(template="{% for i in range(3) %}{{ i }}{% endfor %}{{ range(1, 6, 2) | list }}"),
    "a dict": dict(template="{{ dict(a=1, b='x') | tojson }}"),
    "sets in loops": dict(template="{% set x = 0 %}{% for m in messages %}{% set x = x + 1 %}{% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}"),
    # Faulty templates.
    "refused": dict(template="{{ raise_exception('the roles must alternate') }}", fails=True),
    "an open block": dict(template="{% if true %}", fails=True),
    "an open expression": dict(template="{{ messages[0] ", fails=True),
    "an unknown filter": dict(template="{{ 1 | nonesuch }}", fails=True),
    "an unknown function": dict(template="{{ nonesuch() }}", fails=True),
    "an unknown block": dict(template="{% nonesuch %}", fails=True),
    "a part of nothing": dict(template="{{ nothing.part }}", fails=True),
    "generation that does not end": dict(template="{% generation %}a", fails=True),
}


def tokenizer(folder, case):
    """A folder with a tokenizer that has two special tokens."""
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.add_special_tokens(["<|end|>", "<|task|>"])
    if case.get("auto"):
        inner.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace() if case.get("metaspace") else tokenizers.pre_tokenizers.ByteLevel()
    if case.get("padding"):
        inner.enable_padding(pad_token=case["padding"])
    inner.save(str(folder / "tokenizer.json"))
    settings = case["settings"] if case.get("auto") else {"tokenizer_class": "PreTrainedTokenizerFast"} | TOKENS | case.get("settings", {})
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if case.get("older"):
        (folder / "special_tokens_map.json").write_text(json.dumps(case["older"]))
    if case.get("config"):
        (folder / "config.json").write_text(json.dumps(case["config"]))
    # Set directly: Python would change the line ends of a file.
    opens = transformers.AutoTokenizer if case.get("auto") else transformers.PreTrainedTokenizerFast
    made = opens.from_pretrained(str(folder))
    made.chat_template = case["template"]
    return made


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "crates/policy/tests/fixtures/templates.json")
    made = []
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            reader = tokenizer(pathlib.Path(folder), case)
            try:
                text = reader.apply_chat_template(SAID, tokenize=False, add_generation_prompt=True)
            except (jinja2.TemplateError, TypeError) as error:
                print(f"{name}: {error!r}", file=sys.stderr)
                text = None
        assert (text is None) == case.get("fails", False), (name, text)
        made.append({
            "name": name,
            "template": case["template"],
            "settings": case["settings"] if case.get("auto") else TOKENS | case.get("settings", {}),
            "special_tokens_map": case.get("older"),
            "padding": case.get("padding"),
            "text": text,
        } | {key: case[key] for key in ("config", "metaspace") if key in case})
    whole = {"transformers": transformers.__version__, "messages": SAID, "cases": made}
    out.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

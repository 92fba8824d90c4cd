#!/usr/bin/env python3
"""Tests of docs/SUMMARY.md, of the links between the pages, and of docs.py. They need no mdBook."""
import re
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import docs  # noqa: E402
from rust_style import run as run_all  # noqa: E402

FOLDERS = ("tutorials", "how-to", "reference", "explanation", "decisions", "results")
# Sections of docs/how-to/extend.md, or lists in them, and the variants that only the sources of their steps may name.
SEAMS = {
    "## A source of programs": r"\bGeneratorKind::[A-Z]",
    "## A loss": r"\bLoss::[A-Z]",
    "## A target": r"\bPipeline::[A-Z]|\bproblem\.module\b",
    "For the algorithm of runs (`train`):": r"\bAlgorithm::[A-Z]|settings\.ppo\b",
}


def summary_lists_every_page_once(_):
    listed = docs.links((docs.DOCS / "SUMMARY.md").read_text())
    pages = {str(page.relative_to(docs.DOCS)) for folder in FOLDERS for page in (docs.DOCS / folder).rglob("*.md")} | {"README.md"}
    assert len(pages) > 100, len(pages)
    missing = [f"- [{title(docs.DOCS / page)}]({page})" for page in sorted(pages - set(listed))]
    assert not missing, "docs/SUMMARY.md lacks these lines:\n" + "\n".join(missing)
    assert sorted(pages) == sorted(listed), sorted(set(listed) - pages) or "a page is listed twice"


def title(page):
    return page.read_text().partition("\n")[0].removeprefix("# ")


def summary_names_pages_by_their_titles(_):
    lines = (docs.DOCS / "SUMMARY.md").read_text().splitlines()
    entries = [line.partition("](") for line in lines if "](" in line]
    wrong = [f"{page[:-1]}: {words.partition('[')[2]}" for words, _, page in entries
             if words.partition("[")[2].replace("`", "") != title(docs.DOCS / page[:-1]).replace("`", "")]
    assert not wrong, wrong


def every_relative_link_leads_somewhere(_):
    pages = [*docs.DOCS.rglob("*.md"), docs.ROOT / "README.md", docs.ROOT / "ARCHITECTURE.md", docs.ROOT / "CHANGELOG.md"]
    found = [f"{page.relative_to(docs.ROOT)}: {link}" for page in pages for link in docs.broken(page)]
    assert not found, "\n".join(found)
    assert sum(len(docs.links(page.read_text())) for page in pages) > 400


def answers_to_threads_name_their_places(_):
    rows = re.findall(r"^\| (\[.*) \| (.*) \| (.*) \|$", (docs.DOCS / "explanation/what-others-report.md").read_text(), flags=re.MULTILINE)
    threads = [re.fullmatch(r"\[([\w.-]+/[\w.-]+) #(\d+)\]\(https://github.com/\1/(issues|pull)/\2\)", thread) for thread, _, _ in rows]
    assert len(threads) >= 15 and all(threads), [row[0] for row, thread in zip(rows, threads) if not thread]
    assert len({thread.group(1, 2) for thread in threads}) == len(threads), "a thread is named twice"
    for thread, symptom, answer in rows:
        files = re.findall(r"`((?:crates|clients|scripts)/[^`]+)`", answer)
        missing = [name for name in files if not (docs.ROOT / name).is_file()]
        assert symptom and not missing and (files or docs.links(answer)), f"{thread}: {missing or 'no place'}"


def every_weakness_says_where_its_size_comes_from(_):
    _, table = (docs.DOCS / "explanation/what-it-trusts.md").read_text().split("\n| weakness | size | why it stays |\n|---|---|---|\n")
    sizes = [row.split(" | ")[1] for row in table.splitlines() if row.startswith("| ")]
    assert len(sizes) >= 18, len(sizes)
    silent = [size for size in sizes if not re.match(r"(measured|limit|reasoned|unknown|none)\b", size)]
    assert not silent, silent


def first_runs_take_the_times_and_sizes_of_their_settings(_):
    words = {"300": "five", "600": "ten"}
    read = lambda path: (docs.ROOT / path).read_text()  # noqa: E731
    example = read("examples/dgemm.toml")
    budget = re.search(r"^budget_seconds = (\d+)$", example, flags=re.MULTILINE).group(1)
    size = re.search(r'^workloads = \["n=(\d+)"\]$', example, flags=re.MULTILINE).group(1)
    default = re.search(r"BUDGET: f64 = (\d+)\.0;", read("crates/config/src/search.rs")).group(1)
    train, search = words[budget], words[default]
    assert f"search --problem dgemm --workload n={size} $(ARGS)" in read("Makefile")
    for page, parts in {
        "README.md": [f"`make train` trains for {train} minutes, and `make search` searches for {search}.", f"at n = {size} alone"],
        "docs/tutorials/first-run.md": [f"budget of this run is {train} minutes", f"tries programs for {search} minutes", f"times n = {size} alone"],
    }.items():
        text = " ".join(read(page).split())
        missing = [part for part in parts if part not in text]
        assert not missing, f"{page}: {missing}"


def crates_with_several_test_programs_are_named(_):
    crates = {folder.name: [*folder.glob("tests/*.rs"), *folder.glob("tests/*/main.rs")] for folder in (docs.ROOT / "crates").iterdir()}
    _, _, text = (docs.DOCS / "decisions/0067-tests.md").read_text().partition("crates have several")
    named = crates.keys() & set(re.findall(r"`(\w+)`", text.partition("Tests of whole runs")[0]))
    assert named == {crate for crate, programs in crates.items() if len(programs) > 1}, named


def every_page_is_linked_from_another_one(_):
    """A page that only the indexes name is found by nobody who needs it."""
    indexes = (docs.DOCS / "README.md", docs.DOCS / "SUMMARY.md")
    pages = [page for page in docs.DOCS.rglob("*.md") if page not in indexes] + [docs.ROOT / "README.md", docs.ROOT / "ARCHITECTURE.md"]
    linked = {(page.parent / link.partition("#")[0]).resolve() for page in pages for link in docs.links(page.read_text()) if link[0] != "#"}
    readable = [page for folder in ("tutorials", "how-to", "reference", "explanation") for page in (docs.DOCS / folder).glob("*.md")]
    alone = [str(page.relative_to(docs.ROOT)) for page in readable if page.resolve() not in linked]
    assert len(readable) > 50 and not alone, f"no other page links to {alone}"


def measuring_programs_and_variables_of_tests_are_documented(_):
    scripts = [path for path in (docs.ROOT / "scripts").rglob("*") if path.suffix in (".py", ".sh")]
    texts = [(path.name, path.read_text()) for path in (*docs.DOCS.rglob("*.md"), *scripts, docs.ROOT / "Makefile")]
    # A script's own usage does not count.
    known = {word for name, text in texts for word in re.findall(r"\w+(?:\.\w+)*", text) if word != name}
    examples = {path.stem for path in (docs.ROOT / "crates").glob("*/examples/*.rs")}
    benches = {path.name for path in (docs.ROOT / "scripts/bench").glob("*.py") if not path.stem.endswith(("_test", "_style"))}
    sources = [path for path in (docs.ROOT / "crates").rglob("*.rs") if "tests" in path.parts or path.name == "tests.rs"]
    variables = {name for path in sources for name in re.findall(r"//[/!].*`(FLOPSMITH_[A-Z_]+)[`=]", path.read_text())}
    assert min(map(len, (examples, benches, variables))) > 5, (examples, benches, variables)
    unknown = (examples | benches | variables) - known
    assert not unknown, f"no page and no other script names {sorted(unknown)}"


def comments_hold_no_examples_that_nobody_runs(_):
    """`scripts/test.sh` runs no doc tests: each would be linked by itself. So a block of code in a comment names its language."""
    doc = re.compile(r"^\s*//[/!](.*)$")
    found, blocks = [], 0
    for path in [*(docs.ROOT / "crates").glob("**/*.rs"), *(docs.ROOT / "fuzz/fuzz_targets").glob("*.rs")]:
        is_open = is_blank = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            text = doc.match(line)
            fence = text and re.match(r"\s*(?:```+|~~~+)\s*(\w*)", text[1])
            opens = bool(fence) and not is_open
            blocks += opens
            # rustdoc also takes lines behind an empty one for code if four blanks begin them.
            indented = text and is_blank and not is_open and re.match(r" {5}\s*\S", text[1])
            if indented or (opens and fence[1] not in ("text", "toml", "sh", "json")):
                found.append(f"{path.relative_to(docs.ROOT)}:{number}")
            is_open ^= bool(fence)
            is_blank = bool(text) and not text[1].strip()
    assert blocks >= 5 and not found, f"name the language (text, toml, sh, json), or write a unit test: {found}"


def maps_are_short(_):
    lengths = {name: len((docs.ROOT / name).read_text().splitlines()) for name in ("README.md", "ARCHITECTURE.md")}
    assert max(lengths.values()) <= 150, f"at most 150 lines, and not {lengths}"


def architecture_names_the_crates_that_each_crate_uses(_):
    _, _, table = (docs.ROOT / "ARCHITECTURE.md").read_text().partition("\n| crate | purpose | uses |\n|---|---|---|\n")
    rows = re.findall(r"^\| `([\w-]+)` \| .* \| ([^|]+) \|$", table.partition("\n\n")[0], flags=re.MULTILINE)
    crates = [crate for crate, _ in rows]
    assert sorted(crates) == sorted(folder.name for folder in (docs.ROOT / "crates").iterdir())
    for place, (crate, cell) in enumerate(rows):
        words = {word for word in re.findall(r"[\w-]+", cell) if word in crates}
        written = set(crates[:place]) - words if cell.startswith("all above but ") else words
        manifest = tomllib.loads((docs.ROOT / "crates" / crate / "Cargo.toml").read_text())
        used = {name.removeprefix("flopsmith-") for name in manifest.get("dependencies", {}) if name.startswith("flopsmith-")}
        assert written == used, f"{crate}: too many are {sorted(written - used)}, missing are {sorted(used - written)}"


def sources_that_name(words):
    """The Rust files below crates/*/src that match a pattern outside of their tests."""
    found = set()
    for path in (docs.ROOT / "crates").glob("*/src/**/*.rs"):
        text = path.read_text().partition("#[cfg(test)]\nmod tests")[0]
        if path.name != "tests.rs" and "tests" not in path.parts and re.search(words, text):
            found.add(str(path.relative_to(docs.ROOT)))
    return found


def extending_names_the_sources_that_name_variants(_):
    page = (docs.DOCS / "how-to/extend.md").read_text()
    for section, variants in SEAMS.items():
        _, _, steps = page.partition(f"\n{section}\n")
        steps = re.split(r"^(?:## .*|For .*:)$", steps, maxsplit=1, flags=re.MULTILINE)[0]
        named = {name for name in re.findall(r"`(crates/[^`]+)`", steps) if "/src/" in name}
        missing = sources_that_name(variants) - named
        assert named and not missing, f"the section {section!r} of extend.md lacks {sorted(missing)}"


def links_that_lead_nowhere_are_found(place):
    (place / "other.md").write_text("# A `heading` of [two](x) words\n\n```sh\n# no heading\n```\n")
    page = place / "page.md"
    page.write_text("[a](other.md) [b](other.md#a-heading-of-two-words) [`c`](no.md) [d](other.md#no-heading) `[e](no.md)`\n"
                    "```sh\n[f](no.md)\n```\n[g](https://host/x) ![h](no.svg) [i](#no)\n")
    assert docs.broken(page) == ["no.md", "other.md#no-heading", "no.svg", "#no"], docs.broken(page)


def links_of_the_site_stay_on_the_site(place):
    book, copy = place / "docs", place / "copy"
    (book / "sub").mkdir(parents=True)
    (place / "CODE.md").write_text("# Code\n")
    (book / "README.md").write_text("# Home\n[code](../CODE.md#code) [CODE.md](../CODE.md) [page](sub/page.md#a)\n")
    (book / "sub/page.md").write_text("# A\n[home](../README.md#home) [code](../../CODE.md) `[home](../README.md)`\n")
    (book / "picture.svg").write_text("<svg/>")
    docs.prepare(book, copy)
    assert (copy / "README.md").read_text() == "# Home\ncode (`CODE.md`) CODE.md [page](sub/page.md#a)\n"
    assert (copy / "sub/page.md").read_text() == "# A\n[home](../index.md#home) code (`CODE.md`) `[home](../README.md)`\n"
    assert (copy / "picture.svg").exists()


if __name__ == "__main__":
    sys.exit(run_all("docs", (
        summary_lists_every_page_once, summary_names_pages_by_their_titles, every_relative_link_leads_somewhere, answers_to_threads_name_their_places,
        every_weakness_says_where_its_size_comes_from, first_runs_take_the_times_and_sizes_of_their_settings, crates_with_several_test_programs_are_named, every_page_is_linked_from_another_one,
        measuring_programs_and_variables_of_tests_are_documented, comments_hold_no_examples_that_nobody_runs, maps_are_short,
        architecture_names_the_crates_that_each_crate_uses, extending_names_the_sources_that_name_variants,
        links_that_lead_nowhere_are_found, links_of_the_site_stay_on_the_site,
    )))

#!/usr/bin/env python3
"""Tests of docs/SUMMARY.md, of the links between the pages, and of docs.py. They need no mdBook."""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import docs  # noqa: E402
from rust_style import run as run_all  # noqa: E402

FOLDERS = ("tutorials", "how-to", "reference", "explanation", "decisions", "results")


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
        every_weakness_says_where_its_size_comes_from, first_runs_take_the_times_and_sizes_of_their_settings,
        crates_with_several_test_programs_are_named, links_that_lead_nowhere_are_found, links_of_the_site_stay_on_the_site,
    )))

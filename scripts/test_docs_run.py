#!/usr/bin/env python3
"""Tests of docs_run.py with pages and a program of their own, and of its tables with the pages. They need no build."""
import contextlib
import io
import json
import sys
import urllib.request
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import docs_commands  # noqa: E402
import docs_run  # noqa: E402
from docs_run import Command, Page  # noqa: E402
from rust_style import run as run_all  # noqa: E402

PAGE = """# Title
```sh
flopsmith one '# no comment' a#b    # a comment
# a comment alone
flopsmith two \\
    --three
```
```toml
flopsmith = 1
```
1. A list:

   ```console
   $ flopsmith four   # more
   flopsmith says this
   ```
"""
# A stand-in for the program: writes its arguments down, serves, waits and fails.
PROGRAM = """#!/bin/sh
echo "$*" >>said
case $1 in
serve) echo $$ >$$.pid; echo http://127.0.0.1; exec sleep 60 ;;
late) exec sleep 60 ;;
quits) echo http://127.0.0.1; exit 3 ;;
fails) echo 'the reason'; exit 2 ;;
esac
"""


@contextlib.contextmanager
def tables(**values):
    """Replaces all tables of docs_commands.py, by empty ones where none is given."""
    names = {"SETTINGS": {}, "SMALL": [], "ENDLESS": [], "CODES": {}, "NEEDS": [], "GIVEN": [], "LEFT_OUT": {}}
    before = {name: getattr(docs_commands, name) for name in names}
    for name, value in (names | values).items():
        setattr(docs_commands, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(docs_commands, name, value)


def judged(place, texts, limit=30, **values):
    """Runs these commands as those of a page; returns the page, the output, and what the program was called with."""
    root = place / "root"
    for folder in ("problems", "examples", "models/one", "target/release"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    program = root / "target/release/flopsmith"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    page = Page("docs/a.md", place / "page", root, limit)
    out = io.StringIO()
    with tables(**values), contextlib.redirect_stdout(out):
        page.judge([Command("docs/a.md", number, text) for number, text in enumerate(texts, 1)])
    said = page.folder / "said"
    return page, out.getvalue(), said.read_text().splitlines() if said.exists() else []


def commands_are_read_from_blocks_of_the_shell(_):
    found = docs_run.commands("a.md", PAGE)
    assert found == [Command("a.md", 3, "flopsmith one '# no comment' a#b"), Command("a.md", 5, "flopsmith two --three"), Command("a.md", 14, "flopsmith four")], found


def programs_of_a_command_stand_behind_its_settings(_):
    assert docs_run.programs("A=1 B=$(openssl rand 3) flopsmith ui && mkdir x") == ["flopsmith", "mkdir"]
    assert docs_run.programs("flopsmith a#b > c") == ["flopsmith"]


def every_command_of_the_pages_is_run_or_listed_and_each_entry_fits_one(_):
    shown = docs_run.shown()
    assert docs_run.mistakes(shown) == [], "\n".join(docs_run.mistakes(shown))
    run = [command for command in shown if docs_run.reason(command) is None]
    assert len(run) > 80 and len({command.page for command in run}) > 20, len(run)


def entries_that_fit_nothing_and_unknown_commands_are_mistakes(_):
    shown = [Command("a.md", 1, "flopsmith one"), Command("a.md", 2, "reboot"), Command("b.md", 3, "flopsmith one"), Command("b.md", 4, "flopsmith two")]
    with tables(LEFT_OUT={"it ends the session": ["reboot"], "elsewhere": ["b.md: flopsmith one"]}):
        assert docs_run.mistakes(shown) == []
        assert docs_run.reason(shown[0]) is None and docs_run.reason(shown[2]) == "elsewhere"
    with tables():
        [unknown] = docs_run.mistakes(shown)
        assert "a.md:2: reboot" in unknown, unknown
    listed = {"x": ["reboot", "a.md: flopsmith two", "flopsmith gone"], "y": ["reboot"]}
    with tables(LEFT_OUT=listed, SMALL=[("three", "3")], NEEDS=[("four", "cc")], ENDLESS=[("five", "", True)], CODES={"flopsmith six": (1,)}, GIVEN=[(None, "file.c", "true"), (None, "two", "true")]):
        found = docs_run.mistakes(shown)
        for word in ("a.md: flopsmith two", "flopsmith gone", "lists twice: reboot", "three", "four", "five", "flopsmith six", "file.c"):
            assert sum(word in mistake for mistake in found) == 1, (word, found)
        assert len(found) == 8, found


def a_page_runs_in_a_folder_of_its_own_with_its_files_and_small_budgets(place):
    page, out, said = judged(
        place,
        ["flopsmith search --budget 5m a.c", "mkdir b && flopsmith next", "flopsmith lacks"],
        SMALL=[(r"--budget \S+", "--budget 1s")], SETTINGS={"FLOPSMITH_WAIT": "0"}, NEEDS=[("lacks", "no-such-program")],
        GIVEN=[(("docs/a.md",), "a.c", "cp -r problems a.c"), (("docs/b.md",), "a.c", "mkdir other"), (None, "b.c", "mkdir b.c")],
    )
    assert said == ["search --budget 1s a.c", "next"] and (page.passed, page.failed) == (2, 0), out
    made = {path.name for path in page.folder.iterdir()}
    assert {"a.c", "b", "problems", "models"} <= made and not {"other", "b.c"} & made, made
    assert (page.folder / "models/one").is_symlink() and not (page.folder / "models").is_symlink()
    assert page.environment["FLOPSMITH_WAIT"] == "0" and page.environment["HOME"] == str(page.folder / "home")
    assert "skipped: docs/a.md:3: flopsmith lacks: no-such-program not found" in out, out


def a_page_ends_at_its_first_failure_and_says_why(place):
    page, out, said = judged(place, ["flopsmith fails", "flopsmith next"])
    assert said == ["fails"] and (page.passed, page.failed) == (0, 1)
    for part in ("FAILED", "docs/a.md:1: flopsmith fails", "exit code 2", "| the reason", "not run: docs/a.md:2: flopsmith next"):
        assert part in out, (part, out)


def a_code_may_be_permitted(place):
    page, out, _ = judged(place, ["flopsmith fails", "flopsmith next"], CODES={"flopsmith fails": (0, 2)})
    assert (page.passed, page.failed) == (2, 0), out


def a_command_that_does_not_end_fails(place):
    page, out, _ = judged(place, ["flopsmith late"], limit=0.2)
    assert page.failed == 1 and "did not end within 0.2 s" in out, out


def a_server_runs_beside_the_commands_behind_it_on_a_free_port(place):
    texts = ["flopsmith serve --port 8000", "flopsmith next http://host:8000/v1", "flopsmith serve --port 8000"]
    page, out, said = judged(place, texts, ENDLESS=[("flopsmith (serve|quits)", "http://", True)])
    [first, call, second] = said
    assert "output-0.log" in {path.name for path in page.folder.iterdir()}
    assert first == second and first != "serve --port 8000", said
    assert call == f"next http://host:{first.split()[-1]}/v1", said
    assert (page.passed, page.failed) == (3, 0) and not page.servers, out


def a_server_that_ends_by_itself_is_a_failure(place):
    page, out, _ = judged(place, ["flopsmith quits"], ENDLESS=[("flopsmith (serve|quits)", "http://", True)])
    assert page.failed == 1 and "exit code 3" in out, out


def servers_at_other_ports_run_beside_each_other_until_the_page_ends(place):
    alive = "for pid in $(cat *.pid); do kill -0 $pid || exit 1; done"
    texts = ["flopsmith serve a", "flopsmith serve b -p 4222", f"mkdir both && {alive}", "flopsmith serve c -p 4222", f"mkdir one && {alive}", "flopsmith next"]
    page, out, said = judged(place, texts, ENDLESS=[("serve", "http://", True)])
    # The first server at the port has ended when the second one runs.
    assert (page.passed, page.failed) == (4, 1) and "not run: docs/a.md:6" in out, out
    assert [words.split()[:2] for words in said] == [["serve", "a"], ["serve", "b"], ["serve", "c"]], said
    pids = [int(file.read_text()) for file in page.folder.glob("*.pid")]
    assert len(pids) == 3 and not any(Path(f"/proc/{pid}").exists() for pid in pids), pids


def a_watching_command_ends_before_the_next_one(place):
    page, out, said = judged(place, ["flopsmith serve --watch", "flopsmith next"], ENDLESS=[("--watch", "http://", False)])
    [pid] = [int(file.read_text()) for file in page.folder.glob("*.pid")]
    assert (page.passed, page.failed) == (2, 0) and said == ["serve --watch", "next"] and not page.servers, out
    assert not Path(f"/proc/{pid}").exists()


def variables_that_a_page_exports_hold_for_the_commands_behind(place):
    page, out, said = judged(place, ["export A='b c' D=$PWD/e", "flopsmith next $A $D"])
    assert said == [f"next b c {page.folder}/e"], (out, said)


def the_stand_in_of_a_chat_model_answers_whole_and_in_pieces(_):
    port = docs_run.chat_model()
    for stream in (False, True):
        asked = json.dumps({"model": "m", "messages": [], "stream": stream}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", asked)) as answer:
            text = answer.read().decode()
        assert "void dgemm(" in text and text.endswith("data: [DONE]\n\n") is stream, text


def the_newest_run_stands_for_its_name(place):
    _, _, said = judged(place, ["mkdir -p runs/a", "flopsmith merge runs/NAME/model"])
    assert said == ["merge runs/a/model"], said


if __name__ == "__main__":
    sys.exit(run_all("docs_run", (
        commands_are_read_from_blocks_of_the_shell, programs_of_a_command_stand_behind_its_settings, every_command_of_the_pages_is_run_or_listed_and_each_entry_fits_one,
        entries_that_fit_nothing_and_unknown_commands_are_mistakes, a_page_runs_in_a_folder_of_its_own_with_its_files_and_small_budgets,
        a_page_ends_at_its_first_failure_and_says_why, a_code_may_be_permitted, a_command_that_does_not_end_fails,
        a_server_runs_beside_the_commands_behind_it_on_a_free_port, a_server_that_ends_by_itself_is_a_failure,
        servers_at_other_ports_run_beside_each_other_until_the_page_ends, a_watching_command_ends_before_the_next_one, variables_that_a_page_exports_hold_for_the_commands_behind,
        the_stand_in_of_a_chat_model_answers_whole_and_in_pieces, the_newest_run_stands_for_its_name,
    )))

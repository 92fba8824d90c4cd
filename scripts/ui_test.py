#!/usr/bin/env python3
"""Tests the pages of `flopsmith ui` in Chromium, on runs that crates/ui/examples/sample_runs.rs writes. Every link of the window is followed.
One page of each kind is then looked at in light, in dark and as on a phone: errors, refused and foreign requests, contrast, size of letters,
width, names for screen readers, and the walk by Tab with a visible focus. Then runs are compared by the form, a step is appended while a page is
open, and a program that contains a script has to stay a text. A picture of each page and theme lies in target/ui.

  scripts/ui_test.py                     the same as `make test-ui`, which also builds the programs
  scripts/ui_test.py --large             also judges times and memory of the window on a run with a million outcomes (2 GB on the disk):
                                         each page takes at most 200 ms, and the window 150 MB. Run nothing else on the machine

Needs chromium or Chrome (Debian: apt-get install chromium), flopsmith, and the examples sample_runs and million of crates/ui."""

import argparse
import html.parser
import json
import pathlib
import re
import shutil
import statistics
import sys
import urllib.error
import urllib.parse

import page_checks
from dashboard_test import Results
from devtools import BROWSERS, DESKTOP, PHONE, THEMES, Browser, Tab
from local_cluster import LOOPBACK, ROOT, Failed, Processes, program, run, say, until

PICTURES = ROOT / "target" / "ui"
EXAMPLES = "target/release/examples"
# The kinds of pages that the links of the window have to lead to.
KINDS = {
    "/", "/compare?run", "/runs/R", "/runs/R/programs", "/runs/R/programs/N", "/runs/R/tree", "/runs/R/nodes", "/runs/R/steps", "/runs/R/steps/N",
    "/runs/R/certificates", "/runs/R/certificates/C",
}
# Pages of a kind that are asked for: a run may have a million programs.
MOST_OF_A_KIND = 40
# Seconds until a page shows a step that was appended: it hears of it within two seconds.
NEWS = 60
# One more than a browser has connections to a server.
TABS = 7
# Loads of a page whose median is judged with --large, and the pages of the long run, with half of its programs and steps as `{}`.
LOADS = 5
# Most milliseconds until a page of the long run is complete, and most memory of its window, MB.
MOST_MS, MOST_MB = 200, 150
LARGE = {
    "all runs": "/", "the run": "/runs/long", "newest programs": "/runs/long/programs", "fastest programs": "/runs/long/programs?sort=speed",
    "one program": "/runs/long/programs/{program}", "the tree": "/runs/long/tree", "nodes": "/runs/long/nodes", "steps": "/runs/long/steps",
    "one step": "/runs/long/steps/{step}", "comparison": "/compare?run=long",
}
# Outcomes of a step of the example `million`.
OF_A_STEP = 64

LAST_STEP = "[...document.querySelectorAll('.pairs div')].find((pair) => pair.querySelector('dt').textContent === 'Last step').querySelector('dd').textContent"
SETTLED = "!document.getElementById('main').dataset.again"


class Links(html.parser.HTMLParser):
    """The addresses of the links of a page, without those in the page itself."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        address = dict(attrs).get("href", "").partition("#")[0]
        if tag == "a" and address:
            self.found.append(address)


def links(page):
    reader = Links()
    reader.feed(page)
    return reader.found


def kind(path):
    """A path with letters for its names and numbers, and the names of its query: pages of one kind have one template."""
    address = urllib.parse.urlsplit(path)
    parts = address.path.strip("/").split("/")
    letters = {"runs": "R", "certificates": "C", "candidates": "C"}
    named = [letters.get(before, part) for before, part in zip(["", *parts], parts)]
    named = ["N" if part.isdigit() else part for part in named]
    names = sorted({name for name, _ in urllib.parse.parse_qsl(address.query)})
    return "/" + "/".join(named) + ("?" + "&".join(names) if names else "")


def file_name(words):
    """Words as the name of a file."""
    return re.sub(r"[^a-zA-Z0-9]+", "-", words).strip("-") or "first"


def memory(status):
    """Resident memory now (`VmRSS`) and at most (`VmHWM`), MB, by a process' status. A later line of a name outweighs an earlier one."""
    found = {name: 1024 * int(size) / 1e6 for name, size in re.findall(r"\b(VmRSS|VmHWM):\s+(\d+) kB", status)}
    if len(found) < 2:
        raise Failed(f"the memory of the window is unknown, by {status[:500]!r}")
    return found


def page_times(text):
    """The median time of each page, ms, by the output of the example `million`."""
    found = {name: float(median) for name, median in re.findall(r"^(\S.*?)\s+median\s+([\d.]+) ms, worst", text, re.MULTILINE)}
    if not found:
        raise Failed(f"the example million prints no times of pages: {text[-500:]!r}")
    return found


def judge_page(results, name, ms, more=""):
    results.note(ms <= MOST_MS, f"a long run, {name}: {ms:.1f} ms (median of {LOADS}, at most {MOST_MS}){more}")


def judge_memory(results, of, found):
    """Judges the most memory: measurements beside the window feel this too."""
    results.note(found["VmHWM"] <= MOST_MB, f"a long run, memory of {of}: {found['VmHWM']:.0f} MB (at most {MOST_MB}), {found['VmRSS']:.0f} MB at the end")


class Window:
    """A running `flopsmith ui`."""

    def __init__(self, processes, name, flopsmith, runs):
        self.child = processes.start(name, [flopsmith, "ui", "--runs", runs, "--listen", "127.0.0.1:0"])

        def address():
            processes.alive(name)
            return re.search(r"^http://127\.0\.0\.1:\d+$", processes.log(name), re.MULTILINE)

        self.url = until("the window prints its address", 30, address)[0]

    def get(self, path):
        """Status and text of a page."""
        try:
            with LOOPBACK.open(self.url + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def memory(self):
        """Resident memory now (`VmRSS`) and at most (`VmHWM`), MB."""
        return memory(pathlib.Path(f"/proc/{self.child.pid}/status").read_text())


def crawl(results, window, starts):
    """Follows all links from these pages; returns of each kind the page with the longest text."""
    todo, seen, asked, broken, largest = list(starts), set(starts), {}, [], {}
    while todo:
        path = todo.pop(0)
        of = kind(path)
        asked[of] = asked.get(of, 0) + 1
        if asked[of] > MOST_OF_A_KIND:
            continue
        status, page = window.get(path)
        if status != 200:
            broken.append(f"{path}: {status}")
            continue
        # A candidate's address leads on to its program.
        if "candidates" not in of:
            largest[of] = max(largest.get(of, (0, "")), (len(page), path))
        for link in links(page):
            if not link.startswith("/"):
                broken.append(f"{path} leads to {link}")
            elif link not in seen:
                seen.add(link)
                todo.append(link)
    tried = sum(min(count, MOST_OF_A_KIND) for count in asked.values())
    results.note(not broken, f"{tried} of {len(seen)} links were followed and lead to pages", "; ".join(broken[:10]))
    missing = sorted(KINDS - set(largest))
    results.note(not missing, f"the links lead to {len(largest)} kinds of pages", ", ".join(missing))
    return {of: path for of, (_, path) in sorted(largest.items())}


class Look:
    """A look at a page, which has this status; its faults name its picture."""

    def __init__(self, results, tab, name, path, status=200):
        self.results, self.tab, self.name, self.path, self.status = results, tab, name, path, status

    def load(self, screen, theme):
        self.tab.view(screen, theme)
        self.setting = f"{'phone' if screen['mobile'] else 'desktop'}-{theme}"
        status = self.tab.open(self.path)
        self.tab.until(f"{self.path} is complete", SETTLED)
        picture = PICTURES / f"{file_name(self.name)}-{self.setting}.png"
        self.tab.screenshot(picture)
        self.picture = picture.relative_to(ROOT)
        self.judge("status", [] if status == self.status else [f"{status}, not {self.status}"])

    def judge(self, what, faults):
        shown = [*faults[:8], f"{len(faults) - 8} more"] if len(faults) > 8 else faults
        why = "".join(f"\n      {fault}" for fault in shown) + f"\n      {self.picture}" if faults else ""
        self.results.note(not faults, f"{self.name}, {self.setting}: {what}", why)

    def all(self):
        for theme in THEMES:
            self.load(DESKTOP, theme)
            self.judge("contrast", page_checks.pale(self.tab.evaluate(page_checks.TEXTS)))
            if theme == "light":
                self.judge("names and structure", page_checks.nameless(self.tab.evaluate(page_checks.STRUCTURE)))
                self.judge("keyboard", self.walk())
            self.quiet()
        self.load(PHONE, "light")
        self.judge("width and links to tap", page_checks.cramped(self.tab.evaluate(page_checks.PHONE)))
        self.judge("size of letters", page_checks.small(self.tab.evaluate(page_checks.TEXTS)))
        self.quiet()

    def quiet(self):
        # The browser itself reports a page that is refused.
        troubles = self.tab.troubles() if self.status == 200 else []
        if self.tab.evaluate("typeof window.taken !== 'undefined'"):
            troubles.append("a program's script ran")
        self.judge("no errors and no requests elsewhere", troubles)

    def walk(self):
        """Walks through the page by Tab; returns the faults."""
        stops = self.tab.evaluate(page_checks.STOPS)
        visited, left = [], set(range(len(stops)))
        # The browser adds stops of its own, such as frames that scroll.
        for _ in range(len(stops) + len(stops) // 2 + 20):
            self.tab.key("Tab", 9)
            visited.append(self.tab.evaluate(page_checks.HERE))
            left.discard(visited[-1]["at"])
            if not left:
                break
        return page_checks.unreached(stops, visited)


def skips(results, tab, path):
    """The first stop of a page leads over its navigation."""
    tab.view(DESKTOP, "light")
    tab.open(path)
    tab.key("Tab", 9)
    tab.key("Enter", 13, "\r")
    tab.until("the skip link was followed", "location.hash === '#main'")
    results.note(tab.evaluate("document.activeElement.id") == "main", "the first stop by Tab leads to the content")


def compare(results, tab, runs):
    """Ticks runs on the first page and presses the button."""
    tab.view(DESKTOP, "light")
    tab.open("/")
    for name in runs:
        tab.evaluate(f"document.querySelector('input[name=run][value={json.dumps(name)}]').click()")
    tab.evaluate("document.querySelector('form button').click()")
    tab.until("the button leads to the comparison", "location.pathname === '/compare' && document.readyState === 'complete'")
    rows = tab.evaluate("document.querySelectorAll('table.list tbody tr').length")
    results.note(rows == len(runs), f"the form compares {len(runs)} runs", "" if rows == len(runs) else f"{rows} rows")


def hostile(results, tab, path, text):
    """The page of a program that contains a script shows it and does not run it."""
    tab.view(DESKTOP, "light")
    tab.open(path)
    shows = tab.evaluate(f"document.getElementById('main').innerText.includes({json.dumps(text)})")
    ran = tab.evaluate("typeof window.taken !== 'undefined'")
    results.note(shows, "the page of a program with a script shows its text")
    results.note(not ran, "the page of a program with a script does not run it")


def live(results, tab, path, append):
    """A page shows a step that is appended to the run's log, and leaves a reader in the middle of it alone."""
    tab.view(DESKTOP, "light")
    tab.open(path)
    tab.until("the page is complete", SETTLED)
    tab.evaluate("window.untouched = true")
    step = append()
    tab.until(f"the page shows step {step}", f"{LAST_STEP} === '{step}'", NEWS)
    results.note(tab.evaluate("window.untouched === true"), "an open page shows a new step without a reload")
    tab.screenshot(PICTURES / "live.png")
    tab.evaluate("document.querySelector('main a').focus()")
    later = append()
    tab.until("a reader is told of new outcomes", "document.getElementById('news').textContent", NEWS)
    kept = tab.evaluate(LAST_STEP)
    results.note(kept == str(step), "a page in use is left as it is", "" if kept == str(step) else f"step {kept}")
    results.note(tab.open(f"{path}/steps/{later}") == 200, "the page of the new step is there")
    troubles = tab.troubles()
    results.note(not troubles, "the new step brings no errors", "; ".join(troubles))


def hidden(results, tab_of, path, append):
    """More tabs than a browser has connections: all are answered, and one that was hidden shows what came meanwhile once it is seen."""
    tabs = [tab_of() for _ in range(TABS)]
    for tab in tabs:
        tab.to_front()
        tab.open(path)
        tab.until("the page is complete", SETTLED)
    first, last = tabs[0], tabs[-1]
    results.note(first.evaluate("document.hidden"), "a tab behind another one is hidden")
    results.note(not last.evaluate("document.hidden"), "the tab in front is seen")
    step = append()
    last.until(f"the tab in front shows step {step}", f"{LAST_STEP} === '{step}'", NEWS)
    kept = first.evaluate(LAST_STEP)
    results.note(kept != str(step), "a hidden tab loads nothing")
    first.to_front()
    first.until(f"a tab that is seen again shows step {step}", f"{LAST_STEP} === '{step}'", NEWS)
    step = append()
    first.until(f"a tab that is seen again shows step {step} as well", f"{LAST_STEP} === '{step}'", NEWS)
    results.note(True, f"{len(tabs)} tabs of a window are answered")
    for tab in tabs:
        tab.close()


def large(results, tab_of, processes, flopsmith, outcomes, folder):
    """Judges times and memory of a window on a long run: by the browser, and by the example `million`, which asks for more pages without one."""
    million = program(None, "million", [f"{EXAMPLES}/million"])
    folder = folder or processes.folder / "large"

    def by_million(repeats):
        ran = run([million, "--outcomes", outcomes, "--folder", folder, "--repeats", repeats], limit=3600)
        if ran.returncode:
            raise Failed(f"{million}: {ran.stderr}")
        return ran.stdout.strip()

    say(by_million(0))
    window = Window(processes, "ui-large", flopsmith, folder)
    tab = tab_of(window.url)
    tab.view(DESKTOP, "light")
    tab.open("/runs/long")
    tab.until("the index is complete", SETTLED, 1800)
    say("the index is complete: {VmRSS:.0f} MB, at most {VmHWM:.0f} MB".format(**window.memory()))
    for name, path in LARGE.items():
        times = []
        for _ in range(LOADS):
            tab.open(path.format(program=outcomes // 2, step=outcomes // OF_A_STEP // 2))
            times.append(tab.evaluate("(() => { const of = performance.getEntriesByType('navigation')[0]; return [of.responseStart - of.requestStart, of.loadEventStart - of.startTime]; })()"))
        server, whole = (statistics.median(column) for column in zip(*times))
        judge_page(results, name, whole, f", server {server:.1f} ms")
    judge_memory(results, "the window", window.memory())
    # The log is there now, so this process holds nothing but a window.
    text = by_million(LOADS)
    for name, ms in page_times(text).items():
        judge_page(results, f"{name}, server alone", ms)
    judge_memory(results, "the window of the example", memory(text))


def browser_of(given):
    """The browser: the given one, or the first of the usual names."""
    found = given or next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise Failed(f"no browser found ({', '.join(BROWSERS)}); install chromium, or name one with --chromium")
    # A link stays as it is: some systems start all of their programs by one, which looks at its name.
    if not pathlib.Path(found).is_file():
        raise Failed(f"there is no browser at {found}; name its file with --chromium")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flopsmith", help="the program (default: target/release/flopsmith, or the one on the PATH)")
    parser.add_argument("--chromium", help="the browser (default: the first on the PATH of the usual names)")
    parser.add_argument("--large", metavar="OUTCOMES", nargs="?", type=int, const=1_000_000, help="also judge times and memory on a run with this number of outcomes (default: a million)")
    parser.add_argument("--large-folder", type=pathlib.Path, help="write the long run here, or take the one that is there")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the runs and the logs")
    given = parser.parse_args()
    results = Results()
    processes = Processes()
    try:
        binary = browser_of(given.chromium)
        flopsmith = program(given.flopsmith, "flopsmith", ["target/release/flopsmith"])
        sample = program(None, "sample_runs", [f"{EXAMPLES}/sample_runs"])
        shutil.rmtree(PICTURES, ignore_errors=True)
        PICTURES.mkdir(parents=True)
        # The first page shows the path, which is longer than the line of a phone.
        runs = processes.folder / "a-folder-of-runs-whose-name-is-longer-than-the-line-of-a-phone"

        def write(*more):
            written = run([sample, runs, *more])
            if written.returncode:
                raise Failed(f"{sample}: {written.stderr}")
            return json.loads(written.stdout)

        facts = write()
        live_run = f"/runs/{facts['live']}"
        window = Window(processes, "ui", flopsmith, runs)
        say(f"the window answers at {window.url}")
        compared = "/compare?" + "&".join(f"run={name}" for name in facts["compared"])
        starts = ["/", compared]
        for path in [*starts, *(f"/runs/{name}" for name in facts["runs"])]:
            until(f"the indexes of {path} are complete", 60, lambda: "data-again" not in window.get(path)[1])
        pages = crawl(results, window, starts)
        # These have something that the page with the longest text of their kind may lack.
        pages |= {"/runs/R": live_run, "/compare?run": compared, "a child": facts["child"], "a hostile program": facts["hostile"], "a young run": f"/runs/{facts['runs'][-1]}"}
        browser = Browser(processes, binary)
        tab = Tab(browser, window.url)
        say(f"{browser.call('Browser.getVersion')['product']} looks at {len(pages)} pages")
        for name, path in pages.items():
            Look(results, tab, name, path).all()
        Look(results, tab, "a page that is not there", "/nothing", status=404).all()
        skips(results, tab, live_run)
        compare(results, tab, facts["compared"])
        hostile(results, tab, facts["hostile"], facts["hostile_text"])
        live(results, tab, live_run, lambda: write("--append"))
        hidden(results, lambda: Tab(browser, window.url, always_seen=False), live_run, lambda: write("--append"))
        if given.large:
            large(results, lambda url: Tab(browser, url), processes, flopsmith, given.large, given.large_folder)
    except Failed as why:
        results.note(False, str(why))
    finally:
        if results.failed:
            for name, _ in processes.running:
                print(f"--- the log of {name} ends\n{processes.log(name)[-2000:]}")
        processes.end(given.keep)
        if given.keep:
            say(f"kept: {processes.folder}")
        say(f"all processes of this test have ended; pictures of the pages are in {PICTURES.relative_to(ROOT)}")
    # The format of Rust's test programs, so that scripts/verify.py counts the checks.
    verdict = "FAILED" if results.failed else "ok"
    print(f"test result: {verdict}. {results.passed} passed; {results.failed} failed; 0 ignored; 0 measured; 0 filtered out")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()

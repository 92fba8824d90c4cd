#!/usr/bin/env python3
"""Tests of what ui_test.py is made of: messages over the pipe, colours and contrast, judgements of a page. They need no browser."""
import os
import sys
import types
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import devtools  # noqa: E402
import page_checks  # noqa: E402
import ui_test  # noqa: E402
from local_cluster import Failed  # noqa: E402
from rust_style import run as run_all  # noqa: E402

# Answers each message that it reads from descriptor 3 with an event and an answer to descriptor 4, in pieces.
ECHO = """#!/usr/bin/env python3
import json, os
rest = b""
while piece := os.read(3, 7):
    rest += piece
    *whole, rest = rest.split(b"\\0")
    for message in map(json.loads, whole):
        if message["method"] == "End":
            print("it is over", flush=True)
            raise SystemExit(3)
        result = {"error": {"message": "no such method"}} if message["method"] == "Bad" else {"result": message}
        event = {"method": "Heard", "sessionId": message.get("sessionId"), "params": message["params"]}
        for one in (event, result | {"id": message["id"]}):
            text = json.dumps(one, ensure_ascii=False).encode() + b"\\0"
            while text:
                text = text[os.write(4, text[:5]):]
"""


def fails(action):
    """The words of the failure of an action."""
    try:
        action()
    except Failed as why:
        return str(why)
    raise AssertionError("it did not fail")


def messages_may_be_cut_anywhere(_):
    messages = [{"id": 1, "result": {"value": "é\0ü"}}, {"method": "A"}, {"id": 2}]
    stream = b"".join(map(devtools.frame, messages))
    assert stream.count(b"\0") == 3, "a zero byte in a text is escaped"
    for size in (1, 2, 7, len(stream)):
        frames = devtools.Frames()
        found = [one for at in range(0, len(stream), size) for one in frames.feed(stream[at:at + size])]
        assert found == messages and not frames.rest, size


def a_program_speaks_over_descriptors_three_and_four(place):
    program = place / "echo"
    program.write_text(ECHO)
    program.chmod(0o755)
    processes = types.SimpleNamespace(folder=place, running=[])
    browser = devtools.Browser(processes, str(program))
    (name, child), = processes.running
    try:
        answer = browser.call("Say", "s1", words="é" * 2000)
        assert name == "browser" and answer["method"] == "Say" and answer["sessionId"] == "s1"
        assert answer["params"] == {"words": "é" * 2000}
        assert [event["method"] for event in browser.events] == ["Heard"]
        assert "sessionId" not in browser.call("Say")
        try:
            browser.call("Bad")
            raise AssertionError("it was not refused")
        except devtools.Refused as why:
            assert "no such method" in str(why)
        assert "it is over" in fails(lambda: browser.call("End"))
        assert child.wait(30) == 3
        # Messages to a program that has ended fail, too.
        assert "ended" in fails(lambda: browser.call("Say"))
    finally:
        if child.poll() is None:
            child.kill()
            child.wait(30)
        os.close(browser.out)
        os.close(browser.come)


def a_tab_sees_errors_refusals_and_requests_to_other_servers(_):
    def event(method, session="s", **params):
        return {"method": method, "sessionId": session, "params": params}

    tab = object.__new__(devtools.Tab)
    tab.base, tab.session = "http://127.0.0.1:1", "s"
    tab.browser = types.SimpleNamespace(events=[
        event("Runtime.consoleAPICalled", type="log", args=[{"value": "hello"}]),
        event("Network.requestWillBeSent", request={"url": "http://127.0.0.1:1/ui.css"}),
        event("Log.entryAdded", entry={"level": "info", "source": "network", "text": "fine"}),
        event("Runtime.exceptionThrown", session="another", exceptionDetails={"text": "of another page"}),
    ])
    assert tab.troubles() == []
    tab.browser.events += [
        event("Runtime.exceptionThrown", exceptionDetails={"text": "Uncaught", "exception": {"description": "TypeError: x"}}),
        event("Runtime.consoleAPICalled", type="error", args=[{"value": "bad"}, {"description": "Object"}]),
        event("Log.entryAdded", entry={"level": "error", "source": "network", "text": "404"}),
        event("Audits.issueAdded", issue={"code": "ContentSecurityPolicyIssue", "details": {"contentSecurityPolicyIssueDetails": {"violatedDirective": "img-src"}}}),
        event("Network.requestWillBeSent", request={"url": "http://127.0.0.1:12/x"}),
    ]
    words = "\n".join(tab.troubles())
    assert all(part in words for part in ("TypeError: x", "bad Object", "404", "img-src", "127.0.0.1:12/x")) and len(tab.troubles()) == 5, words


def computed_colours_are_read(_):
    assert page_checks.colour("rgb(10, 90, 184)") == (10, 90, 184, 1)
    assert page_checks.colour("rgba(0, 0, 0, 0)") == (0, 0, 0, 0)
    assert page_checks.colour("rgb(1 2 3 / 0.5)") == (1, 2, 3, 0.5)
    assert page_checks.colour("color(srgb 1 0.2 0 / 0.18)") == (255, 51, 0, 0.18)
    assert page_checks.colour("none")[3] == 0
    try:
        page_checks.colour("url(#hatch)")
        raise AssertionError("it is no colour")
    except ValueError as why:
        assert "url(#hatch)" in str(why)


def contrast_is_that_of_the_guidelines(_):
    white, black = (255, 255, 255, 1), (0, 0, 0, 1)
    assert abs(page_checks.contrast(white, black) - 21) < 1e-9 and page_checks.contrast(black, black) == 1
    # The lightest grey that is permitted on white, and the next one.
    assert page_checks.contrast((118, 118, 118, 1), white) > 4.5 > page_checks.contrast((119, 119, 119, 1), white)


def text(colour, *grounds, opacity=1, size=16):
    return {"where": "p", "words": "words", "colour": colour, "grounds": grounds, "opacity": opacity, "size": size}


def a_text_is_compared_with_all_that_is_behind_it(_):
    clear, white, black = "rgba(0, 0, 0, 0)", "rgb(255, 255, 255)", "rgb(0, 0, 0)"
    good = [text(black, clear, white), text(white, clear, black, white), text(black, "rgba(0, 255, 0, 0.2)", white), text("none", white), text(black)]
    assert page_checks.pale(good) == []
    for bad in (text(white, clear, white), text(black, white, opacity=0.3), text(black, "rgba(0, 0, 0, 0.8)", white), text("rgba(0, 0, 0, 0.2)", white)):
        found, = page_checks.pale([bad])
        assert "of 4.5" in found and "words" in found
    assert page_checks.small([text(black, size=12), text(black, size=11.9)]) == ["11.9 of 12 px: p “words”"]


def a_phone_is_not_wider_than_its_page(_):
    facts = {"width": 375, "page": 375, "beyond": [], "columns": [{"where": "th", "words": "a name", "width": 96}], "targets": [{"where": "Runs", "height": 24}]}
    assert page_checks.cramped(facts) == []
    wide, low = page_checks.cramped(facts | {"page": 380, "beyond": ["pre", "pre"], "targets": [{"where": "Runs", "height": 18.5}]})
    squeezed, = page_checks.cramped(facts | {"columns": [{"where": "th", "words": "a name", "width": 20.2}]})
    assert "20 of 64" in squeezed and "a name" in squeezed
    assert "380" in wide and wide.endswith(": pre") and "18.5" in low and "Runs" in low


def what_has_no_name_is_found(_):
    facts = {"headings": 1, "mains": 1, "lang": "en", "skip": "#main", "title": "Runs", "images": [], "fields": [], "links": [], "cells": 0, "foreign": 0}
    assert page_checks.nameless(facts) == []
    for part, value in (("headings", 2), ("mains", 0), ("lang", ""), ("skip", "/"), ("title", " "), ("images", ["<svg>"]), ("fields", ["<input>"]),
                        ("links", ["<a>"]), ("cells", 3), ("foreign", 1)):
        assert len(page_checks.nameless(facts | {part: value})) == 1, part


def a_walk_by_tab_reaches_all_in_order_and_shows_it(_):
    plain, ring = ["none", "0px", "rgb(0, 0, 0)", "none"], ["solid", "3px", "rgb(10, 90, 184)", "none"]
    stops = [{"where": f"a{number}", "looks": plain} for number in range(3)]

    def walk(*visited, looks=ring):
        return page_checks.unreached(stops, [{"at": at, "looks": looks} for at in visited])

    assert walk(0, 1, 2) == [] and walk(0, -1, 1, 2, 0) == []
    assert "does not reach 1 of 3: a2" in walk(0, 1)[0]
    assert "leaves the order of the page at a2" in walk(0, 2, 1)[0]
    assert len(walk(0, 1, 2, looks=plain)) == 3
    for looks, marked in ((["auto", "1px", "rgb(0, 0, 0)", "none"], True), (["none", "0px", "rgb(0, 0, 0)", "rgb(0, 0, 0) 0px 0px 2px"], True),
                          (["solid", "3px", "rgba(0, 0, 0, 0)", "none"], False), (["solid", "0px", "rgb(9, 9, 9)", "none"], False)):
        assert page_checks.is_marked(plain, looks) == marked, looks
    assert not page_checks.is_marked(ring, ring), "it looks the same without the focus"


def pages_of_a_template_are_one_kind(_):
    for path, of in {
        "/": "/", "/?page=2": "/?page", "/runs/r-1": "/runs/R", "/runs/r/programs/12?against=3": "/runs/R/programs/N?against",
        "/compare?run=a&run=b": "/compare?run", "/runs/r/certificates/r-s1-g0-c1": "/runs/R/certificates/C", "/runs/7/steps": "/runs/R/steps",
        "/runs/r/programs?sort=speed&problem=x": "/runs/R/programs?problem&sort",
    }.items():
        assert ui_test.kind(path) == of, (path, ui_test.kind(path))
    for of in ui_test.KINDS:
        path = of.replace("/R", "/some-run").replace("/N", "/4").replace("/C", "/r-s1-g0-c1").replace("?run", "?run=some-run")
        assert ui_test.kind(path) == of, path
    assert ui_test.file_name("/runs/R/programs?sort") == "runs-R-programs-sort" and ui_test.file_name("/") == "first"


class Pages:
    """A window of a few pages."""

    def __init__(self, pages):
        self.pages = pages

    def get(self, path):
        return (200, self.pages[path]) if path in self.pages else (404, "")


class Notes:
    def __init__(self):
        self.bad = []

    def note(self, good, what, why=""):
        if not good:
            self.bad.append(f"{what}: {why}")


def links_that_lead_nowhere_are_found(_):
    pages = {"/": '<a href="/runs/r">r</a><a href="#main">skip</a>', "/runs/r": '<a href="&#x2f;runs&#x2f;r/steps?page=1#top">all</a>', "/runs/r/steps?page=1": "a longer page"}
    notes = Notes()
    largest = ui_test.crawl(notes, Pages(pages), ["/"])
    assert largest == {"/": "/", "/runs/R": "/runs/r", "/runs/R/steps?page": "/runs/r/steps?page=1"}, largest
    assert len(notes.bad) == 1 and "/runs/R/tree" in notes.bad[0], "only kinds are missing"
    notes = Notes()
    ui_test.crawl(notes, Pages(pages | {"/runs/r": '<a href="/runs/r/nodes">nodes</a><a href="http://example.org/">away</a>'}), ["/"])
    assert "/runs/r/nodes: 404" in notes.bad[0] and "leads to http://example.org/" in notes.bad[0], notes.bad


MILLION = """log: 1900 MB
index made in 9.1 s; slowest page meanwhile 80 ms; VmHWM: 90000 kB, VmRSS: 80000 kB
all runs                     median    1.5 ms, worst    2.5 ms, 4000 bytes
a late page of the fastest   median  201.5 ms, worst  250.0 ms, 90000 bytes
VmHWM: 150000 kB, VmRSS: 100000 kB
"""


def a_slow_page_of_a_long_run_fails(_):
    times = ui_test.page_times(MILLION)
    assert times == {"all runs": 1.5, "a late page of the fastest": 201.5}, times
    notes = Notes()
    for name, ms in times.items():
        ui_test.judge_page(notes, name, ms)
    assert len(notes.bad) == 1 and "a late page of the fastest: 201.5 ms" in notes.bad[0], notes.bad
    notes = Notes()
    ui_test.judge_page(notes, "one step", 200.0)
    assert notes.bad == []
    assert "no times" in fails(lambda: ui_test.page_times("log: 1900 MB\n"))


def a_window_of_too_much_memory_fails(_):
    # The later line counts. It has 153.6 MB at most.
    found = ui_test.memory(MILLION)
    assert found == {"VmHWM": 153.6, "VmRSS": 102.4}, found
    notes = Notes()
    ui_test.judge_memory(notes, "the window", found)
    assert len(notes.bad) == 1 and "154 MB" in notes.bad[0], notes.bad
    notes = Notes()
    ui_test.judge_memory(notes, "the window", ui_test.memory("Name:\tflopsmith\nVmHWM:\t  146000 kB\nVmRSS:\t   20 kB\n"))
    assert notes.bad == []
    assert "unknown" in fails(lambda: ui_test.memory("VmHWM: 3 kB\n"))


if __name__ == "__main__":
    sys.exit(run_all("ui_test", (
        messages_may_be_cut_anywhere, a_program_speaks_over_descriptors_three_and_four, a_tab_sees_errors_refusals_and_requests_to_other_servers,
        computed_colours_are_read, contrast_is_that_of_the_guidelines, a_text_is_compared_with_all_that_is_behind_it, a_phone_is_not_wider_than_its_page,
        what_has_no_name_is_found, a_walk_by_tab_reaches_all_in_order_and_shows_it, pages_of_a_template_are_one_kind, links_that_lead_nowhere_are_found,
        a_slow_page_of_a_long_run_fails, a_window_of_too_much_memory_fails,
    )))

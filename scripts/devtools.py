"""Chromium under the DevTools protocol, by Python's standard library alone.

With `--remote-debugging-pipe` the browser reads messages from file descriptor 3 and writes answers and events to descriptor 4. A message is
JSON and ends with a zero byte. So a test needs no websocket and no port that another program could reach."""

import base64
import fcntl
import json
import os
import select
import subprocess
import time

from local_cluster import Failed, clean_environment

# Names under which systems have the browser.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--remote-debugging-pipe",
    # The test shows pages of this project alone, and a container may permit no sandbox.
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--no-default-browser-check", "--disable-extensions", "--disable-sync", "--disable-background-networking",
    "--disable-component-update", "--disable-crash-reporter", "--no-proxy-server", "--force-color-profile=srgb", "--window-size=1280,900",
)
# Seconds for an answer of the browser, and for a page to load.
LIMIT = 60
# Pixels of a screenshot's height; longer pages are cut.
TALLEST = 6000
DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
PHONE = {"width": 375, "height": 812, "deviceScaleFactor": 2, "mobile": True}
THEMES = ("light", "dark")


class Refused(Failed):
    """The browser refused a message, or a script threw; the page may have been replaced meanwhile."""


class Frames:
    """Messages out of pieces of a stream, which may end anywhere in a message."""

    def __init__(self):
        self.rest = bytearray()

    def feed(self, piece):
        self.rest += piece
        *whole, self.rest = self.rest.split(b"\0")
        return [json.loads(message) for message in whole]


def frame(message):
    return json.dumps(message).encode() + b"\0"


class Browser:
    """A browser with a profile of its own below the folder of the test's processes, which end it."""

    def __init__(self, processes, binary):
        folder = processes.folder / "browser"
        folder.mkdir()
        their_in, self.out = os.pipe()
        self.come, their_out = os.pipe()
        # Numbers that no redirection below takes away.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (their_in, their_out)]
        os.close(their_in)
        os.close(their_out)
        # The shell gives the pipes their numbers and becomes the browser: between fork and exec, Python code could not do so safely.
        shell = f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]} {theirs[0]}<&- {theirs[1]}>&-'
        command = ["bash", "-c", shell, "bash", binary, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.log = processes.folder / "browser.log"
        with self.log.open("wb") as log:
            child = subprocess.Popen(
                command, pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                # Caches of fonts and of the graphics library lie below the home folder.
                env=clean_environment() | {"HOME": str(folder)},
            )
        for end in theirs:
            os.close(end)
        processes.running.append(("browser", child))
        self.frames, self.number, self.answers, self.events = Frames(), 0, {}, []

    def call(self, method, session=None, **given):
        """The answer to a message."""
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": given}
        data = frame(message | ({"sessionId": session} if session else {}))
        try:
            while data:
                data = data[os.write(self.out, data):]
        except BrokenPipeError:
            raise self.ended() from None
        end = time.monotonic() + LIMIT
        while number not in self.answers:
            if not self.pump(1) and time.monotonic() > end:
                raise Failed(f"the browser does not answer {method} within {LIMIT} s")
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Refused(f"{method}: {answer['error'].get('message')}")
        return answer.get("result", {})

    def pump(self, limit):
        """Takes what the browser wrote; false if it wrote nothing for this time."""
        ready, _, _ = select.select([self.come], [], [], limit)
        if not ready:
            return False
        piece = os.read(self.come, 1 << 20)
        if not piece:
            raise self.ended()
        for message in self.frames.feed(piece):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.events.append(message)
        return True

    def ended(self):
        return Failed(f"the browser ended:\n{self.log.read_text(errors='replace')[-2000:]}")


class Tab:
    """A page of a browser, on the server of this address."""

    def __init__(self, browser, base, always_seen=True):
        """A page that is not `always_seen` is hidden while another one is in front."""
        self.browser, self.base = browser, base
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        # Otherwise a page without a window in front has no focus to show.
        self.call("Emulation.setFocusEmulationEnabled", enabled=always_seen)

    def call(self, method, **given):
        return self.browser.call(method, self.session, **given)

    def events(self, method):
        """The events of this kind since the page was opened."""
        mine = (event for event in self.browser.events if event.get("sessionId") == self.session)
        return [event["params"] for event in mine if event["method"] == method]

    def view(self, screen, theme):
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        touch = {"maxTouchPoints": 5} if screen["mobile"] else {}
        self.call("Emulation.setTouchEmulationEnabled", enabled=screen["mobile"], **touch)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def to_front(self):
        """Shows this page, and hides the others of its window."""
        self.call("Page.bringToFront")

    def open(self, path):
        """Loads a page and returns its status."""
        self.browser.events.clear()
        answer = self.call("Page.navigate", url=self.base + path)
        if answer.get("errorText"):
            raise Failed(f"{path}: {answer['errorText']}")
        loader = answer["loaderId"]

        def loaded():
            return any(event["loaderId"] == loader and event["name"] == "load" for event in self.events("Page.lifecycleEvent"))

        end = time.monotonic() + LIMIT
        while not loaded():
            if not self.browser.pump(1) and time.monotonic() > end:
                raise Failed(f"{path} does not load within {LIMIT} s")
        found = [event for event in self.events("Network.responseReceived") if event["loaderId"] == loader and event["type"] == "Document"]
        return found[-1]["response"]["status"] if found else None

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"]
            raise Refused(f"a script of the test threw: {thrown.get('exception', {}).get('description', thrown['text'])}")
        return answer["result"].get("value")

    def until(self, what, expression, limit=LIMIT):
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + limit
        while True:
            # The page may be just now replaced by the next one.
            try:
                found = self.evaluate(expression)
            except Refused:
                found = None
            if found:
                return found
            if time.monotonic() > end:
                raise Failed(f"not within {limit} s: {what}")
            self.browser.pump(0.05)

    def key(self, name, code, text=""):
        given = {"key": name, "code": name, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **given, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **given)

    def screenshot(self, path):
        """Writes a picture of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], TALLEST), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def troubles(self):
        """Errors and refusals that the browser reported since the page was opened, and requests to other servers."""
        found = []
        for event in self.events("Runtime.exceptionThrown"):
            details = event["exceptionDetails"]
            found.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        for event in self.events("Runtime.consoleAPICalled"):
            if event["type"] in ("error", "assert"):
                words = (str(part.get("value", part.get("description", ""))) for part in event["args"])
                found.append("console: " + " ".join(words))
        for event in self.events("Log.entryAdded"):
            entry = event["entry"]
            if entry["level"] == "error" or entry["source"] == "security":
                found.append(f"{entry['source']}: {entry['text']}")
        for event in self.events("Audits.issueAdded"):
            if event["issue"]["code"] == "ContentSecurityPolicyIssue":
                details = event["issue"]["details"].get("contentSecurityPolicyIssueDetails", {})
                found.append(f"policy: {details.get('violatedDirective')} {details.get('blockedURL', '')}")
        for event in self.events("Network.requestWillBeSent"):
            url = event["request"]["url"]
            if not url.startswith((self.base + "/", "data:", "about:")):
                found.append(f"request to another server: {url}")
        return found

"""Commands and services of the tested program, and transcripts of what other tools said to them."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[4]
TRANSCRIPTS = ROOT / "target" / "clients"
# Seconds for a command; a search measures the machine first.
LIMIT = 600


def program():
    """FLOPSMITH, or the built program, or that on the PATH."""
    built = ROOT / "target" / "release" / "flopsmith"
    found = os.environ.get("FLOPSMITH") or (built if built.exists() else shutil.which("flopsmith"))
    if not found:
        sys.exit("flopsmith not found: run `make build`, or set FLOPSMITH to its path")
    return str(found)


def command(*arguments, **variables):
    """Runs a command of the program, with further variables in its environment. Raises if it fails."""
    # Nothing waits for a quiet machine here: tests judge no times.
    environment = os.environ | {"FLOPSMITH_WAIT": "0"} | variables
    whole = [program(), *map(str, arguments)]
    done = subprocess.run(whole, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{whole[1:]} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


@contextlib.contextmanager
def served(*arguments, **variables):
    """Starts a service of the program. Gives its address and the file of its log, and ends it."""
    with tempfile.NamedTemporaryFile("w+") as log:
        whole = [program(), *map(str, arguments)]
        service = subprocess.Popen(whole, cwd=ROOT, env=os.environ | variables, stdout=subprocess.PIPE, stderr=log, text=True)
        file = pathlib.Path(log.name)
        try:
            address = service.stdout.readline().strip()
            if not address.startswith("http://"):
                raise RuntimeError(f"the service did not start:\n{file.read_text()[-4000:]}")
            yield address, file
        finally:
            service.terminate()
            code = service.wait(60)
            service.stdout.close()
        if code != 0:
            raise RuntimeError(f"the service ended with {code}:\n{file.read_text()[-4000:]}")


def records(path):
    """The objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shown(value):
    """A value as JSON with the line ends of its texts, for people to read."""
    return json.dumps(value, indent=1, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


def transcript(name, title, parts):
    """Writes headings and texts into target/clients/NAME.md, for people to read."""
    TRANSCRIPTS.mkdir(parents=True, exist_ok=True)
    # Texts have fences of their own.
    blocks = [f"## {heading}\n\n~~~~\n{text.strip()}\n~~~~\n" for heading, text in parts]
    (TRANSCRIPTS / f"{name}.md").write_text("\n".join([f"# {title}\n", *blocks]), encoding="utf-8")

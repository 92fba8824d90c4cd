#!/usr/bin/env python3
"""Tests that measurements which are ended by SIGTERM leave no process. They run with `make test`."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from rust_style import run as run_all  # noqa: E402

BEGIN = """
import sys
from sigterm import ends_what_it_started
ends_what_it_started()
# It tells its id when the script waits for it.
command = ["sh", "-c", f"until grep -q '^State:.S' /proc/$PPID/status; do :; done; echo $$ > {sys.argv[1]}; exec sleep 600"]
"""


def is_gone_after_sigterm(folder, start):
    """Ends a script by SIGTERM once it has started `command`, which sleeps for ten minutes. True if that process is gone when the script is."""
    told = folder / "told"
    os.mkfifo(told)
    script = subprocess.Popen([sys.executable, "-c", BEGIN + start, told], cwd=HERE, stderr=subprocess.DEVNULL)
    child = int(told.read_text())
    script.send_signal(signal.SIGTERM)
    assert script.wait(60) == 128 + signal.SIGTERM, script.returncode
    try:
        os.kill(child, signal.SIGKILL)
    except ProcessLookupError:
        return True
    return False


def a_command_with_a_limit_ends_with_its_script(folder):
    assert is_gone_after_sigterm(folder, "from peers.tools import ended; ended(command, 600)")


def a_command_whose_lines_are_timed_ends_with_its_script(folder):
    assert is_gone_after_sigterm(folder, "from evaluation_cost import heard; heard(command, 600)")


def a_bench_of_modules_ends_with_its_script(folder):
    assert is_gone_after_sigterm(folder, "from module_parts.bench import followed; followed(command, None, 600)")


def a_server_of_a_model_ends_with_its_script(folder):
    assert is_gone_after_sigterm(folder, "from model_serve import measured; measured(command, {0}, '/', [])")


def an_awaited_command_ends_with_its_script(folder):
    assert is_gone_after_sigterm(folder, "import subprocess; subprocess.run(command)")


def every_script_that_starts_processes_ends_them(folder):
    """A script that imports one of these starts processes, too."""
    starts = re.compile(r"subprocess\.(run|Popen)|from (peers\.tools|module_parts|evaluation_cost) import|from against_torch import .*\brun\b")
    scripts = [file for file in HERE.glob("*.py") if not file.name.endswith("_test.py") and 'if __name__ == "__main__"' in file.read_text()]
    begin = [file.name for file in scripts if starts.search(file.read_text())]
    assert len(begin) > 10, begin
    for name in begin:
        assert 'if __name__ == "__main__":\n    ends_what_it_started()\n' in (HERE / name).read_text(), name


if __name__ == "__main__":
    sys.exit(run_all("sigterm", (
        a_command_with_a_limit_ends_with_its_script, a_command_whose_lines_are_timed_ends_with_its_script, a_bench_of_modules_ends_with_its_script,
        a_server_of_a_model_ends_with_its_script, an_awaited_command_ends_with_its_script, every_script_that_starts_processes_ends_them)))

#!/usr/bin/env python3
"""Tests of cluster_test.py's advice where a command fails, with commands that take no time and need no Docker."""
import contextlib
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "bench"))
import cluster_test  # noqa: E402
from rust_style import run as run_all  # noqa: E402

HINT = "make images-offline"


def told(script):
    """The error of a command that runs this shell script."""
    words = None
    try:
        cluster_test.run(["sh", "-c", script])
    except SystemExit as end:
        words = str(end.code)
    assert words is not None, f"`{script}` did not end with an error"
    return words


def a_registry_that_cannot_be_reached_brings_the_hint_to_make_images(_):
    assert cluster_test.UNREACHED
    for words in cluster_test.UNREACHED:
        for stream in ["1", "2"]:
            said = told(f"echo 'Error response from daemon: {words}' >&{stream}; exit 18")
            assert HINT in said and words in said and "ended with 18" in said, said


def a_real_message_of_docker_brings_the_hint(_):
    said = told("echo 'Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io: no such host' >&2; exit 1")
    assert HINT in said, said


def other_failures_bring_no_hint(_):
    said = told("echo 'no space left on device' >&2; exit 3")
    assert "no space left on device" in said and HINT not in said, said


def commands_that_may_fail_end_nothing(_):
    done = cluster_test.run(["sh", "-c", "echo 'dial tcp' >&2; exit 1"], check=False)
    assert done.returncode == 1 and done.stderr == "dial tcp\n"


if __name__ == "__main__":
    sys.exit(run_all("cluster_test", (
        a_registry_that_cannot_be_reached_brings_the_hint_to_make_images, a_real_message_of_docker_brings_the_hint, other_failures_bring_no_hint,
        commands_that_may_fail_end_nothing,
    )))

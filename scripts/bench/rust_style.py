"""Runs tests and prints their results in the format of Rust's test programs, so that one sum covers all."""
import tempfile
import traceback
from pathlib import Path


def run(name, tests):
    """Gives each test an empty folder; returns the exit code."""
    passed = failed = 0
    for test in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Path(folder))
                passed += 1
                print(f"test {name}::{test.__name__} ... ok")
            except Exception:
                failed += 1
                print(f"test {name}::{test.__name__} ... FAILED")
                traceback.print_exc()
    print(f"\ntest result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out")
    return int(failed > 0)

"""`flopsmith search` for the given minutes."""

import time

from .tools import Missing, fresh, run

# The search measures the machine before, and the fastest programs after its budget.
BESIDES = 15 * 60


def command(options, case, file, runs, seconds):
    command = [options.flopsmith, "search", "--cold", "--problem", case.folder, "--budget", f"{seconds:.0f}s", "--output", file, "--runs", runs, "--format", "json"]
    return command + (["--workload", case.workload] if case.several else [])


def flopsmith(case, folder, options):
    file = folder / "flopsmith.c"
    file.unlink(missing_ok=True)
    begun = time.monotonic()
    seconds = options.minutes * 60
    run(command(options, case, file, fresh(folder / "runs"), seconds), limit=seconds + BESIDES)
    if not file.is_file():
        raise Missing("the search found no right program")
    return {"state": "source", "file": str(file), "version": run([options.flopsmith, "--version"]).strip(),
            "tuning_seconds": round(time.monotonic() - begun, 1)}

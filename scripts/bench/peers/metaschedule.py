"""MetaSchedule of Apache TVM: searches schedules of a tensor expression.

It makes objects and no sources, so the fastest of many calls by TVM's own clock counts, after a comparison of the results with NumPy's."""

import json
import os
import time
from pathlib import Path

from .tools import Missing, fresh, one_thread, private_python, run

# TVM asks for its runtime by a lower bound only, and was built for that: MetaSchedule crashes with apache-tvm-ffi 0.1.15. xgboost-cpu is xgboost without the
# half gigabyte for GPUs.
PACKAGES = ("apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post0", "numpy==2.4.6", "ml_dtypes==0.6.0", "xgboost-cpu==3.0.5", "scipy==1.17.1",
            "cloudpickle==3.1.2", "psutil==7.2.2", "tornado==6.6.1")
# Problems with a tensor expression in run_metaschedule.py.
EXPRESSIONS = ("dgemm", "sgemm", "dgemv", "transpose", "conv2d")
# A round of trials that is under way when the time ends, and the final measurement.
BESIDES = 600


def metaschedule(case, folder, options):
    if case.name not in EXPRESSIONS:
        raise Missing(f"there is no tensor expression for {case.name} (scripts/bench/peers/run_metaschedule.py)")
    python = private_python("tvm", *PACKAGES)
    begun = time.monotonic()
    task = {"problem": case.name, "params": case.params, "seconds": options.minutes * 60, "folder": str(fresh(folder / "tvm")),
            "cores": len(os.sched_getaffinity(0))}
    file = folder / "metaschedule.json"
    file.write_text(json.dumps(task))
    said = run([python, Path(__file__).with_name("run_metaschedule.py"), file], limit=options.minutes * 60 + BESIDES, env=one_thread(), cwd=folder)
    return {"state": "timed", **json.loads(said.splitlines()[-1]), "version": PACKAGES[0], "tuning_seconds": round(time.monotonic() - begun, 1)}

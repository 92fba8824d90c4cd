"""Profiles a call of a candidate in the candidate's own process, for people and models that improve it.

The process could write any rows in place of these. The supervisor shows them as text, and decides nothing by them.
"""

import os

import torch
from torch.autograd import DeviceType

# The profiler of `torch.profiler`. Its outer class imports TorchInductor at each start, which takes seconds.
from torch.autograd.profiler import profile, record_function

# Most rows of an answer, and most characters of a name in it.
MOST, LONGEST = 200, 120
# The row of the call as a whole: its own time is that of Python and of all that has no row.
WHOLE = "ModelNew.forward"
# A jail has devices only where its supervisor shows them. CUDA's own search for them may make system calls that the jail forbids.
DRIVER = "/dev/nvidiactl"


def profiler():
    """Records operators on the CPU, and kernels where there is a GPU."""
    on_gpu = os.path.exists(DRIVER) and torch.cuda.is_available()
    return profile(use_kineto=True, use_device="cuda" if on_gpu else None)


def prepare():
    """Profiles a trifle, before the stricter filter of system calls and before anything of a candidate. The profiler then
    reads its settings and may start a thread of its own, which the filter forbids to a candidate on one core."""
    with profiler() as found, record_function(WHOLE):
        torch.zeros(1).add_(1)
    found.key_averages()


def recorded(name, function):
    """The function, with a row by this name."""

    def call(*arguments, **named):
        with record_function(name):
            return function(*arguments, **named)

    return call


def operators(call):
    """The operators in which a call spends its time, those with the most first, after a call to warm up."""
    call()
    with profiler() as found, record_function(WHOLE):
        call()
    rows = sorted(map(row, found.key_averages()), key=lambda each: -each["self_us"])
    return {"rows": rows[:MOST], "left_out": max(0, len(rows) - MOST)}


def row(event):
    device = event.device_type != DeviceType.CPU
    total, own = (event.device_time_total, event.self_device_time_total) if device else (event.cpu_time_total, event.self_cpu_time_total)
    return {"name": str(event.key)[:LONGEST], "calls": event.count, "total_us": float(total), "self_us": float(own), "device": device}

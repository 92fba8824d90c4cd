"""SIGTERM ends a script of measurements as Ctrl-C does.

By default SIGTERM ends Python at once, and the processes that it started go on: a service or a search would use the cores of the next measurement.
"""

import signal
import sys


def ends_what_it_started():
    """From now on SIGTERM raises SystemExit, so `finally` and `with` blocks end their processes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

"""Becomes another program that dies with its parent: `python -IS launcher.py PARENT_PID PROGRAM ARGUMENTS…`.

The kernel is asked to SIGKILL this process when its parent ends, however the parent ends, and keeps to that
across exec. Done in a program of its own because code between fork and exec (preexec_fn) may deadlock where
the parent has threads. Imports nothing but what it needs: it runs before every child of the sandbox.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From now on the kernel kills this process when the thread that started it ends."""
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"launcher: prctl failed: {os.strerror(ctypes.get_errno())}")


def main() -> None:
    parent, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[2:]
    die_with_parent()
    # The parent may have died before the kernel was asked; then nobody would tell us any more.
    if os.getppid() != parent:
        sys.exit(f"launcher: the process {parent} that wanted {program} is gone")
    try:
        os.execv(program, arguments)
    except OSError as problem:
        sys.exit(f"launcher: cannot run {program}: {problem.strerror}")


if __name__ == "__main__":
    main()

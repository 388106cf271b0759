"""NVIDIA's Multi-Process Service, by which the kernels of several processes run on a GPU at once, not in turns."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time

CONTROL, PIPES = "nvidia-cuda-mps-control", "CUDA_MPS_PIPE_DIRECTORY"
PATIENCE = 20.0  # seconds until the service answers, and until it has ended
# The shell ends the service, and itself, when its input ends: when that is closed, or its holder was killed.
SERVE = f"""
trap '' INT TERM
{CONTROL} -f </dev/null &
service=$!
cat
echo quit -t 2 | timeout 10 {CONTROL}
end() {{ rm -rf "${PIPES}"; kill -9 0; }}
(sleep 5; end) &
wait $service
end
"""
# Use the GPU by CUDA's driver alone, as torch would take seconds to import.
PROBE = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
"""
_running: list[tuple[subprocess.Popen, dict[str, str]]] = []  # at most one


def start() -> dict[str, str]:
    """Start the service, unless this process runs it; return what its users need in their environment.

    {} where it is not installed, where the environment names one already, or where it does not work. Every run has its
    own, in a temporary folder. It ends by `stop`, and with this process however that ends.
    """
    if not _running and shutil.which(CONTROL) and PIPES not in os.environ:
        folder = tempfile.mkdtemp(prefix="mps-")
        environment = {PIPES: folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": os.environ | environment}
        server = subprocess.Popen(["sh", "-c", SERVE], stdin=subprocess.PIPE, start_new_session=True, **how)
        _running.append((server, environment))
        atexit.register(stop)
        if not _serves(how):
            stop()
    return _running[0][1] if _running else {}


def _serves(how: dict) -> bool:
    """Return whether a process can use the GPU, and does so by the service."""
    listing, deadline = {**how, "input": b"get_server_list\n", "timeout": PATIENCE}, time.monotonic() + PATIENCE
    try:
        while subprocess.run([CONTROL], **listing).returncode and time.monotonic() < deadline:
            time.sleep(0.1)
        subprocess.run([sys.executable, "-c", PROBE], check=True, timeout=PATIENCE, **how)
        return bool(subprocess.run([CONTROL], **listing | {"stdout": subprocess.PIPE}).stdout.strip())
    except subprocess.SubprocessError:
        return False


def stop() -> None:
    """End the service and wait until it has ended. Its users have to have ended before."""
    while _running:
        server, _ = _running.pop()
        server.stdin.close()
        server.wait(PATIENCE)

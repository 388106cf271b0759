"""Knowledge distillation for reading comprehension: five papers over one thin package."""

import os

# Threads that wait sleep instead of spinning: where other programs want the cores, spinning makes a step several times
# as slow. Read when torch loads its OpenMP runtime, GNU's or (the second) LLVM's and Intel's; workers inherit both.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

__version__ = "0.1.0"

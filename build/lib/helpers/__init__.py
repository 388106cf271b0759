"""Knowledge distillation for reading comprehension: five papers over one thin package."""

import os

# Threads that wait sleep instead of spinning: where other programs want the cores, spinning makes a step several times
# as slow. Read when torch loads its OpenMP runtime, GNU's or (the second) LLVM's and Intel's; workers inherit both.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

__version__ = "1.0.0"


def __getattr__(name: str) -> object:
    """``load_reader``, imported when it is asked for, as torch and transformers take seconds."""
    if name != "load_reader":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from helpers.answering import load_reader

    return load_reader

#!/bin/sh
# What only a GPU can show, in some minutes: tests, every notebook on preset smoke, and two benchmarks.
#
#   benchmarks/gpu.sh DATA ENCODER
#
# DATA is a folder of preset lab (a subfolder a domain), ENCODER a folder with an encoder and its tokenizer. PYTHON is what
# to run it with (python3).
set -eu
data=$1 encoder=$2
python=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
"$python" -m pytest -rs -m gpu "$root/tests/test_gpu.py"
HELPERS_RESULTS=$(mktemp -d) "$python" -m helpers run --preset smoke
"$python" "$root/benchmarks/gpu.py" --data "$data/wikipedia" --encoder "$encoder"
"$python" "$root/benchmarks/training.py" --data "$data/wikipedia" --encoder "$encoder" --windows 1600

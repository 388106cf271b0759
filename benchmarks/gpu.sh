#!/bin/sh
# What only a GPU can show, in at most 8 minutes: its tests, and the speed of trainings beside Hugging Face's Trainer.
#
#   benchmarks/gpu.sh DATA ENCODER [OUT]
#
# DATA is a folder of preset lab (a subfolder a domain), ENCODER a folder with an encoder and its tokenizer, OUT the file
# for the measurements. PYTHON is what to run it with (python3).
set -eu
data=$1 encoder=$2 out=${3:-gpu.json}
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" "$root/benchmarks/gpu.py" --data "$data/wikipedia" --encoder "$encoder" --out "$out"

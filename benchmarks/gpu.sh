#!/bin/sh
# What there is to see on a GPU, meant for less than ten minutes on one H200:
#
#   benchmarks/gpu.sh DATA ENCODER [tests] [benchmarks] [table]        (without a word: all three)
#
# DATA is a folder of preset lab (a subfolder a domain), ENCODER a folder with an encoder and its tokenizer.
# table makes IMM's Table 1 with preset lab, four trainings at once (gpu.toml), and leaves its records below results/, or
# below $HELPERS_RESULTS.
#
#   PYTHON       python3         what to run it with
#   TRAIN_SIZE   500             questions of a domain; 0 for all, which takes hours
#   SEEDS        3
set -eu
data=$1 encoder=$2
shift 2
python=${PYTHON:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
for part in ${*:-tests benchmarks table}; do
    echo "== $part"
    case $part in
    tests) "$python" -m pytest -rs -m gpu "$root/tests/test_gpu.py" ;;
    benchmarks)
        "$python" "$root/benchmarks/gpu.py" --data "$data/wikipedia" --encoder "$encoder"
        "$python" "$root/benchmarks/training.py" --data "$data/wikipedia" --encoder "$encoder" --windows 1600
        ;;
    table)
        "$python" -m helpers run --preset "$root/benchmarks/gpu.toml" 02_imm_main -p data_dir "$data" \
            -p encoder "$encoder" -p train_size "${TRAIN_SIZE:-500}" -p seeds "${SEEDS:-3}"
        ;;
    *) echo "no part $part: give tests, benchmarks or table" >&2 && exit 2 ;;
    esac
done

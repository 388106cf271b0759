"""One folder with all that `benchmarks/gpu.sh` needs on a machine with a GPU and no network.

    python benchmarks/bundle.py --data path/to/domains --encoder path/to/encoder --out path/to/bundle

The machine has Python 3.12 and the packages that `benchmarks/torch_image.txt` names, PyTorch among them. The folder
gets the project as it is committed, without its results, and the name of the commit; wheels of what the project needs
besides, in the versions that are installed here; of the data what preset lab trains on and asks; the encoder in
float16; and ``run.sh``, which unpacks them there and takes the words that `benchmarks/gpu.sh` takes. A folder larger
than --most megabytes is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

import torch
from packaging.requirements import Requirement
from safetensors.torch import load_file, save_file

from helpers.presets import load

ROOT = Path(__file__).parents[1]
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.0"}
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]
# JupyterLab, widgets and completion are for a person, debuggers for bugs, rouge-score for free answers
SKIPPED = {"jupyterlab", "ipywidgets", "jedi", "debugpy", "rouge-score"}
BESIDE = ["ipykernel"]  # which JupyterLab brings along otherwise
RUN = """#!/bin/sh
# Unpack what lies beside this file into $WORK, run benchmarks/gpu.sh there on it with the words given, and leave the
# log and the records in $OUT. Records made there do not know their commit; it stands in commit.txt.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-${TMPDIR:-/tmp}/reading-distillation}
out=${OUT:-$here/out}
python=${PYTHON:-python3}
if [ ! -d "$work/site" ]; then
    mkdir -p "$work"
    for part in project data encoder; do tar xJf "$here/$part.tar.xz" -C "$work"; done
    "$python" -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$here"/wheels/*.whl
fi
mkdir -p "$out" "$work/results"
export PYTHONPATH="$work/site" HELPERS_RESULTS="$work/results" HF_HUB_OFFLINE=1
status=0
sh "$work/project/benchmarks/gpu.sh" "$work/data" "$work/encoder" "$@" >"$out/log.txt" 2>&1 || status=$?
cat "$out/log.txt"
cp "$here/commit.txt" "$out"
tar czf "$out/results.tar.gz" -C "$work" --exclude models results
exit $status
"""


def lacking() -> dict[str, str]:
    """By name the version here of every package that the project needs and the image has not."""
    has = set((ROOT / "benchmarks/torch_image.txt").read_text().split())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    left, missing = [Requirement(each) for each in [*project["dependencies"], *BESIDE]], {}
    while left:
        needed = left.pop()
        name = re.sub(r"[-_.]+", "-", needed.name).lower()
        if name in has | SKIPPED | set(missing):
            continue
        missing[name] = metadata.version(name)
        needs = map(Requirement, metadata.requires(name) or [])
        environments = [{**PYTHON, "extra": extra} for extra in ("", *needed.extras)]
        left += [each for each in needs if not each.marker or any(map(each.marker.evaluate, environments))]
    return missing


def fetch_wheels(packages: dict[str, str], folder: Path) -> None:
    """Download these versions for the image's Python. Raises CalledProcessError where one has no such wheel."""
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    pins = [f"{name}=={version}" for name, version in sorted(packages.items())]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--python-version=3.12", *platforms, f"--dest={folder}", *pins], check=True)


def pack(folder: Path, into: Path) -> None:
    """Write a folder as a compressed archive."""
    with tarfile.open(into / f"{folder.name}.tar.xz", "w:xz") as archive:
        archive.add(folder, folder.name)


def cut_project(folder: Path) -> None:
    """The committed files, without results."""
    with tempfile.TemporaryFile() as file:
        subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=file, check=True)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:
            archive.extractall(folder, filter="data")
    for left_out in ("results", "data/mini/large"):
        shutil.rmtree(folder / left_out, ignore_errors=True)


def cut_data(source: Path, folder: Path) -> None:
    """The domains, general and adversarial questions of preset lab, those that are there."""
    lab = load.load("lab", "imm")
    adversarial = lab.data.adversarial
    for part in {*lab.data.domains.values(), lab.general, adversarial.AddSent, adversarial.AddOneSent}:
        target = folder / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target)
        elif (source / part).is_file():
            shutil.copy(source / part, target)


def cut_encoder(source: Path, folder: Path) -> None:
    """Weights in float16, configuration and tokenizer."""
    folder.mkdir()
    for file in sorted(source.iterdir()):
        if file.suffix == ".safetensors":
            weights = {
                name: tensor.half() if tensor.dtype == torch.float32 else tensor
                for name, tensor in load_file(file).items()
            }
            save_file(weights, folder / file.name, metadata={"format": "pt"})
        elif file.suffix in (".json", ".txt", ".model"):
            shutil.copy(file, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=float, default=60.0, help="megabytes")
    options = parser.parse_args()
    if options.out.exists():
        sys.exit(f"{options.out} is there already: remove it, or give another folder")
    options.out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        parts = [Path(temporary) / name for name in ("project", "data", "encoder")]
        cut_project(parts[0])
        cut_data(options.data, parts[1])
        cut_encoder(options.encoder, parts[2])
        for part in parts:
            pack(part, options.out)
    fetch_wheels(lacking(), options.out / "wheels")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    (options.out / "commit.txt").write_text(commit.stdout)
    (options.out / "run.sh").write_text(RUN)
    (options.out / "run.sh").chmod(0o755)
    sizes = {
        path.name: sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file()) / 1e6
        for path in sorted(options.out.iterdir())
    }
    whole = sum(sizes.values())
    print(f"{options.out}: {whole:.1f} MB (" + ", ".join(f"{name} {size:.1f}" for name, size in sizes.items()) + ")")
    if whole > options.most:
        sys.exit(f"that is more than {options.most:g} MB")


if __name__ == "__main__":
    main()

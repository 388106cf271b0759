"""One folder with all that a machine with a GPU and no network needs to train.

    python benchmarks/bundle.py --data path/to/data --encoder path/to/encoder --out path/to/bundle

The machine has Linux, git, Python 3.12 and the packages that `benchmarks/torch_image.txt` names, PyTorch among them.
The folder gets the project at its last commit, without results; wheels of what the project needs besides, in the
versions that are installed here; data and encoder as they are; and ``run.sh``, which unpacks all that side by side, and
runs a command in the project's folder:

    sh run.sh python3 -m helpers run --preset lab 02 -p data_dir ../data -p encoder ../encoder

A folder larger than --most megabytes is an error.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.0"}
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux1_x86_64"]
# JupyterLab and completion are for a person, debuggers for bugs, rouge-score for free answers
SKIPPED = {"jupyterlab", "jedi", "debugpy", "rouge-score"}
BESIDE = ["ipykernel"]  # which JupyterLab brings along otherwise
RUN = """#!/bin/sh
# Unpack what lies beside this file into $WORK unless it is there, run the command given in the project's folder, and
# leave the log and the results, without models, in $OUT.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=${WORK:-${TMPDIR:-/tmp}/reading-distillation}
out=${OUT:-$here/out}
if [ ! -d "$work/site" ]; then
    mkdir -p "$work"
    for part in "$here"/*.tar.xz; do tar xJf "$part" -C "$work"; done
    git -C "$work/project" reset --quiet --hard
    python3 -m pip install -q --no-index --no-deps --no-compile --target "$work/site" "$here"/wheels/*.whl
fi
mkdir -p "$out" "$work/results"
export PYTHONPATH="$work/project:$work/site" JUPYTER_PATH="$work/site/share/jupyter" HELPERS_RESULTS="$work/results"
export HF_HUB_OFFLINE=1
cd "$work/project"
status=0
"$@" >"$out/log.txt" 2>&1 || status=$?
cat "$out/log.txt"
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


def pack(folder: Path, name: str, target: Path) -> None:
    """Write a folder as a compressed archive, in which it has this name."""
    with tarfile.open(target, "w:xz") as archive:
        archive.add(folder, name)


def clone_project(folder: Path) -> None:
    """Clone the last commit alone, so that records there name it, and without results."""
    serve = "git -c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
    partial = ["--depth=1", "--filter=blob:none", "--no-checkout", f"--upload-pack={serve}"]
    partial += [f"--config=remote.origin.uploadpack={serve}"]  # for the files, which the checkout fetches
    subprocess.run(["git", "clone", "--quiet", *partial, f"file://{ROOT}", folder], check=True)
    for command in (["sparse-checkout", "set", "--no-cone", "/*", "!/results"], ["checkout", "--quiet"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


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
        clone_project(Path(temporary) / "project")
        pack(Path(temporary) / "project/.git", "project/.git", options.out / "project.tar.xz")
    for folder in (options.data, options.encoder):
        name = folder.resolve().name
        pack(folder, name, options.out / f"{name}.tar.xz")
    fetch_wheels(lacking(), options.out / "wheels")
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

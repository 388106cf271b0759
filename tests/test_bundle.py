"""What make gpu-bundle puts together, but for the downloads."""

import subprocess

from conftest import benchmark

from helpers import paths

bundle = benchmark("bundle")


def test_wheels_are_of_what_the_image_lacks():
    packages = bundle.lacking()
    assert {"pooch", "pydantic", "pydantic-core", "papermill", "ipykernel", "nbconvert"} <= set(packages)
    image = set((paths.ROOT / "benchmarks/torch_image.txt").read_text().split())
    assert {"torch", "transformers", "pyarrow"} <= image and not image & set(packages)
    assert not bundle.SKIPPED & set(packages) and "jupyter-server" not in packages  # nor what only these need


def test_the_project_is_its_last_commit_without_results(tmp_path):
    def git(*arguments, folder):
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout

    bundle.clone_project(tmp_path / "project")
    assert git("rev-parse", "HEAD", folder=tmp_path / "project") == git("rev-parse", "HEAD", folder=paths.ROOT)
    assert not git("status", "--porcelain", folder=tmp_path / "project")
    assert (tmp_path / "project/helpers/loop.py").is_file() and not (tmp_path / "project/results").exists()

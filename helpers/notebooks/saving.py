"""What JupyterLab does when a notebook is saved (make jupyter)."""

import subprocess
from pathlib import Path


def refresh_git(os_path: str, **_: object) -> None:
    """Let ``git status`` see that a saved notebook differs by outputs alone, which git's filter strips.

    Git takes a file of another size for modified until it is added, even where its filter leaves no change.
    """
    folder = Path(os_path).parent
    if not subprocess.run(["git", "diff", "--quiet", "--", os_path], cwd=folder, capture_output=True).returncode:
        subprocess.run(["git", "add", "--update", "--", os_path], cwd=folder, capture_output=True)

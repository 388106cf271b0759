"""Files that are written whole or not at all, JSON that reads well, and fingerprints of texts and files."""

import errno
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

from helpers import paths

LINE_WIDTH = 118  # characters; what fits stays on one line of a file


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, in one step and with the folders above it: a killed run never leaves half of it.

    Links are followed. Raises OSError that names the file, also where something else than a file is there.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        raise OSError(f"cannot write {path}: it is no regular file; choose another place")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    except OSError as error:
        raise unwritten(f"write {path}", error) from error
    finally:
        temporary.unlink(missing_ok=True)


def follow_umask(folder: Path) -> None:
    """Let those read the weights below a folder who may read any new file; safetensors lets only their owner."""
    os.umask(mask := os.umask(0))
    for file in folder.rglob("*.safetensors"):
        file.chmod(0o666 & ~mask)


def unwritten(what: str, error: Exception) -> OSError:
    """The error that says what could not be written, why, and what to do where the disk is full or the file somebody
    else's. Advice that ``error`` has already is not repeated."""
    # That of safetensors has no number of its own, only in its text.
    full = getattr(error, "errno", None) == errno.ENOSPC or f"(os error {errno.ENOSPC})" in str(error)
    advice = "; free some space and run again" if full else ""
    if isinstance(error, PermissionError) and error.filename:
        path, owner = owner_of(Path(error.filename))
        is_result = Path(error.filename).resolve().is_relative_to(paths.trainings().resolve())
        choice = ", or set HELPERS_RESULTS to another folder" if is_result else ""
        advice = f"; {path} belongs to {owner}: ask for permission to write{choice}"
    return OSError(f"cannot {what}: {error}{'' if advice in str(error) else advice}")


def owner_of(path: Path) -> tuple[Path, str]:
    """The file, or the first folder above it that is there, and its owner's name, or number where it has none."""
    while not os.path.exists(path) and path != path.parent:  # False, too, where a folder may not be entered
        path = path.parent
    try:
        return path, path.owner()
    except KeyError:
        return path, f"user {path.stat().st_uid}"


def fingerprint(*texts: object) -> str:
    """Sixteen hex digits that stand for these texts, or what prints as them, in this order."""
    return hashlib.sha256("\n".join(map(str, texts)).encode()).hexdigest()[:16]


def file_fingerprint(path: str | Path) -> str:
    """Sixteen hex digits that stand for a file's content. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def json_rows(value: Any, indent: int = 0, row: bool = False) -> str:
    """JSON that reads well in a diff: what is short, a row of a list or a list of plain values takes one line."""
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, dict | list) or indent + len(flat) <= LINE_WIDTH:
        return flat
    mapping = isinstance(value, dict)
    items = list(value.values()) if mapping else value
    if not any(isinstance(item, dict | list) for item in items) and (row or not mapping):
        return flat if row else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    keys = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value] if mapping else [""] * len(items)
    lines = [key + json_rows(item, indent + 1, not mapping) for key, item in zip(keys, items, strict=True)]
    gap, (first, last) = "\n" + " " * (indent + 1), "{}" if mapping else "[]"
    return first + gap + f",{gap}".join(lines) + gap[:-1] + last

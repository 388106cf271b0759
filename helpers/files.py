"""Files that are written whole or not at all, and fingerprints of texts."""

import hashlib
import os
import uuid
from pathlib import Path


def writable(file: Path) -> Path:
    """``file``, if that can be written. Raises OSError where it is a folder."""
    if file.is_dir() or not file.name:
        raise IsADirectoryError(f"{file} is a folder; give the name of a file in it")
    return file


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8, in one step and with the folders above it: a killed run never leaves half of it.

    Raises OSError that names the file.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error}; free some space and run again") from error
    finally:
        temporary.unlink(missing_ok=True)


def fingerprint(*texts: object) -> str:
    """Sixteen hex digits that stand for these texts, or what prints as them, in this order."""
    return hashlib.sha256("\n".join(map(str, texts)).encode()).hexdigest()[:16]

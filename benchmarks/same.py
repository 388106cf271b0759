"""Compare the records of two results folders: python benchmarks/same.py OLD NEW [--only]

Everything counts but how a record was made, times, wording and the order of scores. With --only, records of OLD that
NEW lacks are no difference. Ends with 1 where something differs.
"""

import json
import sys
from pathlib import Path

TIMES = ("seconds", "ms ", "times ")  # how metrics begin that differ in every run
WORDS = ("title", "notes", "text", "printed_for", "unit")


def facts(value):
    """Return what of a record has to be the same: no words, no times."""
    if isinstance(value, dict):
        value = {name: facts(inner) for name, inner in value.items() if name not in (*WORDS, "run")}
        if "scores" in value:
            value["scores"].sort(key=lambda score: json.dumps(score, sort_keys=True))
        return value
    if isinstance(value, list):
        return [facts(item) for item in value if not is_time(item)]
    return value


def is_time(item) -> bool:
    """Return whether a score is a time."""
    return isinstance(item, dict) and str(item.get("metric") or "").startswith(TIMES)


def main(old: Path, new: Path, only: bool) -> int:
    """Print each record that differs, and the number of those that do not."""
    names = [{file.relative_to(folder).as_posix() for file in folder.glob("*/*.json")} for folder in (old, new)]
    differing = [f"only in {new}: {name}" for name in sorted(names[1] - names[0])]
    differing += [f"only in {old}: {name}" for name in sorted(names[0] - names[1])] if not only else []
    for name in sorted(names[0] & names[1]):
        before, after = (facts(json.loads((folder / name).read_text(encoding="utf-8"))) for folder in (old, new))
        parts = [part for part in {**before, **after} if before.get(part) != after.get(part)]
        differing += [f"{name}: {', '.join(parts)}"] if parts else []
    print("\n".join([*differing, f"{len(names[0] & names[1])} records in both, {len(differing)} differences"]))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), "--only" in sys.argv))

"""The same corpora by their names on the Hugging Face Hub, or from any folder that `datasets.load_dataset` reads."""

import datasets

from helpers.data.examples import Corpus, DataError
from helpers.data.formats.columns import from_rows


def load_hub(
    name: str, split: str, *, config: str | None = None, subset: str | None = None, unanswerable: bool = False
) -> Corpus:
    """Load ``split`` of squad, squad_v2, mrqa, narrativeqa or any dataset with the columns of one of them.

    ``config`` names a configuration, where a dataset has several; ``subset`` keeps the rows whose column of that
    name has this value, as mrqa's has (SQuAD, NewsQA, …). Raises `DataError` when the Hub cannot be reached,
    when name, configuration or split do not exist, and for rows that are not as their format has them.
    """
    try:
        rows = datasets.load_dataset(name, config, split=split)
    except ConnectionError as error:
        raise DataError(
            f"{name}: the Hub cannot be reached and the dataset is not in its cache ({error}); "
            "connect to the network, or download the files and load them from disk"
        ) from error
    except (FileNotFoundError, ValueError) as error:
        raise DataError(f"{name}, split {split!r}, configuration {config!r}: {error}") from error
    if subset is not None:
        known = rows.unique("subset") if "subset" in rows.column_names else []
        if subset not in known:
            raise DataError(f"{name}[{split}] has no subset {subset!r}; it has {', '.join(known) or 'none'}")
        rows = rows.filter(lambda value: value == subset, input_columns="subset")
    return from_rows(rows, f"{name}[{split}]", unanswerable=unanswerable)

"""Similarity of domains by their questions (Liu et al. 2020, section 4, step 1)."""

from functools import cache

import numpy as np

from helpers.data.examples import DataError
from helpers.data.load import training_questions
from helpers.presets.schema import DataSettings


def question_similarity(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines of the domains' questions, one document of TF-IDF each, and the paper's weights from them.

    Both arrays are N × N, in the order of the mapping. Row i of the weights is row i of the cosines divided by its sum
    over j ≠ i, with 0 on the diagonal; where no word is shared, all others weigh 1 / (N - 1). Raises DataError.
    """
    count = len(questions_by_domain)
    if count < 2:
        listing = ", ".join(questions_by_domain) or "none"
        raise DataError(
            f"similarity needs at least 2 domains, found {listing}; give two files or more: notebooks 01 to 05 and 19 "
            "compare readers of several domains, and 06_a2d_main reads one"
        )
    vectors, _ = _vectorise(questions_by_domain)
    cosines = np.clip(vectors @ vectors.T, 0.0, 1.0)
    off_diagonal = 1 - np.eye(count)
    others = cosines * off_diagonal
    sums = others.sum(axis=1, keepdims=True)
    return cosines, np.divide(others, sums, out=off_diagonal / (count - 1), where=sums > 0)


def nearest(weights: dict[str, float], number: int) -> dict[str, float]:
    """Return the ``number`` largest weights (0: all), in their order, scaled to the sum of all."""
    if not 0 < number < len(weights):
        return weights
    largest = sorted(weights, key=weights.get, reverse=True)[:number]
    scale = sum(weights.values()) / (sum(weights[name] for name in largest) or 1.0)
    return {name: scale * weight for name, weight in weights.items() if name in largest}


def shared_words(questions_by_domain: dict[str, list[str]], number: int = 6) -> dict[str, dict[str, str]]:
    """Return for every two domains the words that add most to their cosine, most first."""
    vectors, words = _vectorise(questions_by_domain)
    rows = dict(zip(questions_by_domain, vectors, strict=True))

    def shared(first: str, second: str) -> str:
        products = rows[first] * rows[second] * (first != second)
        best = np.argsort(-products, kind="stable")[:number]
        return ", ".join(words[k] for k in best if products[k] > 0)

    return {first: {second: shared(first, second) for second in rows} for first in rows}


def _vectorise(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.feature_extraction.text import TfidfVectorizer  # here, because it takes a second to import

    vectorizer = TfidfVectorizer()
    words = vectorizer.build_analyzer()
    for domain, questions in questions_by_domain.items():
        if not any(words(question) for question in questions):
            raise DataError(f"domain {domain}: no word in its {len(questions)} questions; is its training part empty?")
    documents = ["\n".join(questions) for questions in questions_by_domain.values()]
    return vectorizer.fit_transform(documents).toarray(), vectorizer.get_feature_names_out()


@cache
def tfidf_weights(data: DataSettings) -> dict[str, dict[str, float]]:
    """Compute s_ij by target i and source j from the TF-IDF of the training questions. Raises DataError."""
    names, (_, s) = list(data.domains), question_similarity(training_questions(data))
    # Rounded, as they are part of keys and another machine may add them up in another order.
    return {i: {j: round(float(s[a, b]), 6) for b, j in enumerate(names) if a != b} for a, i in enumerate(names)}


def similarities(data: DataSettings, method: str) -> dict[str, dict[str, float]]:
    """Return s_ij: from TF-IDF as in the paper, 1 ("uniform", -SIMI), or 1/(N - 1) ("equal")."""
    s = tfidf_weights(data)
    if method == "tf-idf":
        return s
    return {i: {j: 1.0 if method == "uniform" else round(1 / len(row), 6) for j in row} for i, row in s.items()}

"""How alike the domains are, by their questions (Liu et al. 2020, section 4, step 1)."""

import numpy as np

from helpers.data.examples import DataError


def question_similarity(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """Cosine similarity of the domains' questions, and the weights that the paper makes of it.

    The training questions of each domain are joined to one document and represented by TF-IDF over the N documents
    (scikit-learn's smoothed idf, words of two characters and more, lower case). Passages are left out on purpose:
    domains may share those and still ask differently.

    Returns two arrays of shape (N, N), rows and columns in the order of the mapping: the cosines, in [0, 1] with ones
    on the diagonal; and the weights s_ij, row i divided by its sum over j ≠ i, with zeros on the diagonal, so that
    each row sums to 1. A domain that shares no word with any other gets equal weights, 1 / (N - 1) each.

    Raises `DataError` for fewer than two domains, and for a domain without a word in its questions.
    """
    count = len(questions_by_domain)
    if count < 2:
        found = ", ".join(questions_by_domain) or "none"
        raise DataError(f"similarity is between domains: at least 2 are needed, found {found}")
    vectors, _ = _vectors(questions_by_domain)
    cosines = np.clip(vectors @ vectors.T, 0.0, 1.0)
    off_diagonal = 1 - np.eye(count)
    others = cosines * off_diagonal
    sums = others.sum(axis=1, keepdims=True)
    return cosines, np.divide(others, sums, out=off_diagonal / (count - 1), where=sums > 0)


def nearest(weights: dict[str, float], number: int) -> dict[str, float]:
    """The ``number`` largest weights of a domain's others (0: all), in their order, scaled to the same sum."""
    if not 0 < number < len(weights):
        return weights
    kept = sorted(weights, key=weights.get, reverse=True)[:number]
    scale = sum(weights.values()) / (sum(weights[name] for name in kept) or 1.0)
    return {name: scale * weight for name, weight in weights.items() if name in kept}


def shared_words(questions_by_domain: dict[str, list[str]], number: int = 6) -> dict[str, dict[str, str]]:
    """For every two domains the words that add most to their cosine, most first; empty where they share none."""
    vectors, words = _vectors(questions_by_domain)
    rows = dict(zip(questions_by_domain, vectors, strict=True))

    def shared(first: str, second: str) -> str:
        products = rows[first] * rows[second] * (first != second)
        best = np.argsort(-products, kind="stable")[:number]
        return ", ".join(words[k] for k in best if products[k] > 0)

    return {first: {second: shared(first, second) for second in rows} for first in rows}


def _vectors(questions_by_domain: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """TF-IDF rows of unit length, one a domain, and the words that their columns stand for."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # here, because it takes a second to import

    vectorizer = TfidfVectorizer()
    words = vectorizer.build_analyzer()
    for domain, questions in questions_by_domain.items():
        if not any(words(question) for question in questions):
            raise DataError(f"domain {domain}: no word in its {len(questions)} questions; is its training part empty?")
    documents = ["\n".join(questions) for questions in questions_by_domain.values()]
    return vectorizer.fit_transform(documents).toarray(), vectorizer.get_feature_names_out()

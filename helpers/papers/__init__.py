"""One module a paper; each reads like its paper's algorithm."""

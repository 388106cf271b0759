"""The kinds of problem: how each is learned, answered and scored."""

"""Records of results, and what is computed and drawn from them."""

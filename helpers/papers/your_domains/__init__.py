"""Your own domains: readers of each by several methods, side by side, and the best of each on validation."""

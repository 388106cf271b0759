"""From files to batches: examples, windows, batches. Knows no models."""

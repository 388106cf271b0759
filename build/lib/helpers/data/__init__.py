"""From files, the Hub and the miniature world to examples, in parts to train, validate and test. Knows no batches."""

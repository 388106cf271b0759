"""Token sequences and the batches that trainings read."""

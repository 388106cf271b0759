"""The one training loop and what runs around it."""

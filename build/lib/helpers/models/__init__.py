"""Readers and their parts. Knows no papers."""

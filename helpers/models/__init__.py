"""Pretrained encoders with heads, and what methods add to them. Imports no paper."""

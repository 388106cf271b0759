"""Pretrained encoders with heads, the reader RMR, and what methods add to them. Imports no paper."""

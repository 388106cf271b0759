"""Presets: all settings of a run."""

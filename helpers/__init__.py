"""Knowledge distillation for reading comprehension: five papers over one thin package."""

__version__ = "0.1.0"

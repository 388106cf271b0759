"""What notebooks share, and how they are run headlessly."""

"""The miniature world."""

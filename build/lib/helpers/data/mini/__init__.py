"""The miniature world of invented people, towns and companies: questions on it, stories, labelled texts and tasks."""

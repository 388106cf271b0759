"""Files and Hub datasets to questions, labelled texts and choices: a module a format, and what these share."""

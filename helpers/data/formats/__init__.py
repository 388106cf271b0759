"""Files and Hub datasets to questions, one module a format."""

"""`snm export`: a trained model as plain arrays, or as a search index built by a library for it."""

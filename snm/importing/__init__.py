"""Makes data sets of files of texts, of svmlight lines and of logs of interactions."""

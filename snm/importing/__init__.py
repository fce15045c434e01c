"""Makes data sets of files of texts, of svmlight lines and of logs of interactions.

Public names: `options.ImportOptions`, `checks.check_import`, `build.build` and
`summary.print_summary`, in this order; `options.InteractionsOptions`, `checks.check_interactions`,
`logs.interactions.build` and `logs.interactions.summary_lines`;
`logs.interactions.import_interactions`, which `snm` exports.
"""

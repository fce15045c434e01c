"""`snm doctor`: checks the environment, a data set, or a run for problems.

Public names: `environment.examine_environment`, `of_data.examine_data`, `of_run.examine_run`,
`findings.Finding`.
"""

"""`snm doctor`: checks the environment, a data set, or a run for problems.

Public names: `environment.examine_environment`, `data_checks.examine_data`,
`run_checks.examine_run`, `findings.Finding`.
"""

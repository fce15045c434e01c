"""`snm compare`: trains SNM, negative sampling and other packages over seeds, and writes a report.

Public names, by module:

- `arms`: `Arm`, `plan_arms`, `tuning_grid`, `EXTRAS`: the settings to compare, and their tuning
  grids.
- `campaign`: `Campaign`: runs all arms at equal steps, tuned, and at equal seconds.
- `plan`: `check_same_plan`: what is compared, which does not change when a comparison is resumed.
- `jobs`: `run_jobs`, `read_result`, `Job`: training runs as processes that can be resumed.
- `worker`: `run_task`: one such run, `python -m snm.compare.worker TASK.json`.
- `processes`: `run_tied`: what such processes, and who starts them, know of each other's end.
- `probe`: `ModelProbe`: measurements during training (scores, false negatives, gradient variance).
- `peers`: other packages and methods, each behind one function and measured in its own process.
- `report`: the summary, the tables, the plots and the HTML page.
- `cli`: the command line.

Nothing is re-exported here.
"""

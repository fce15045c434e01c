"""The folder of a run: settings, result, log, checkpoints, and tracking services.

Public names: `folder.RunFolder`; `stored_run.load` and `stored_run.StoredRun`; the events of a run
in `events`; `log.event_log.EventLog`; `log.trackers.log_to_trackers`;
`log.progress_bar.show_progress`.
"""

"""The folder of a run: settings, result, log, checkpoints, and tracking services.

Public names: `folder.RunFolder`; `load.load` and `load.StoredRun`; the events of a run in
`events`; `log.event_log.EventLog`; `log.trackers.tracked`;
`log.progress_bar.with_bar`.
"""

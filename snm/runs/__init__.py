"""The folder of a run: settings, result, log, checkpoints, and tracking services.

Public names: `folder.RunFolder`; `load.load` and `load.load_member`; the events of a run in
`events`; `event_log.EventLog`; `trackers.tracked`; `progress_bar.with_bar`.
"""

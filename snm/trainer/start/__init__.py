"""The start of a training: its settings, model and batches, initial parameters, and notes.

Public names: `same_command.check_same_command`, `same_command.check_same_settings`;
`resumed_settings.resolve_for_run`, `resumed_settings.given_settings`; `prepare.prepare` and
`prepare.Prepared`; `training_points.training_points`; `warm_start.starting_state`, which calls
`centroids.start_at_centroids`; `start_notes.start_notes`, `start_notes.notes_on_settings`.
"""

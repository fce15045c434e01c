"""The start of a training: its model and batches, its initial parameters, and notes for the user.

Public names: `prepare.prepare` and `prepare.Prepared`; `training_points.training_points`;
`warm_start.starting_state`, which calls `centroids.start_at_centroids`; `start_notes.start_notes`,
`start_notes.notes_on_settings`.
"""

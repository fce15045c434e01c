"""The folder of a run: settings, result, log, checkpoints, trackers."""

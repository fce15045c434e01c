"""Where the events of a run go: `log.jsonl`, TensorBoard, tracking services, a progress bar."""

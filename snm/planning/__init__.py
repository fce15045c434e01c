"""What a run will need, before it starts: bytes by part and stage, time of an epoch, remedies."""

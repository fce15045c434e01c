"""Makes a run as those from before the manifest."""

from pathlib import Path

from snm.system import sealed_json


def without_manifest(run: Path) -> Path:
    """Removes the manifest of a run, and what its checkpoints say of it."""
    (run / "manifest.json").unlink()
    for path in (run / "checkpoints").rglob("manifest.json"):
        note = sealed_json.read_sealed(path)
        del note["about"]["manifest"]
        sealed_json.write_sealed(path, note)
    return run

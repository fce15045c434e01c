"""What a run leaves in its folder."""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

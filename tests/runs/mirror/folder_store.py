"""`python folder_store.py train ...`: snm with a store `folder://` that is a folder of the disk.

Real processes of a test share it, as machines share a bucket.
"""

import os
import sys

from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem

from snm.stores.address import KINDS, Kind


class FolderStore(LocalFileSystem):
    """The addresses `folder://...` below the folder $FOLDER_STORE."""

    protocol = "folder"

    def __init__(self, **options):
        super().__init__(auto_mkdir=True, **options)

    @classmethod
    def _strip_protocol(cls, path):
        if path.startswith("folder://"):
            path = f"{os.environ['FOLDER_STORE']}/{path.removeprefix('folder://')}"
        return super()._strip_protocol(path)


# Collecting doctests imports this file under another name, too.
register_implementation("folder", FolderStore, clobber=True)
KINDS["folder"] = Kind("fsspec", "none")

if __name__ == "__main__":
    from snm.cli.main import main

    main(sys.argv[1:])

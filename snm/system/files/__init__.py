"""Files and folders of this machine: checked, written atomically, hashed, locked, cached.

Public names: `atomic.atomic_file`, `atomic.atomic_folder`, `atomic.write_atomic`;
`checks.check_new`, `checks.check_writable`; `checksums.fingerprint`, `checksums.read_sealed`,
`checksums.write_sealed`; `locks.locked`; `cache_folder.cache_folder`; and the calls of `disk`,
through which all is written.
"""

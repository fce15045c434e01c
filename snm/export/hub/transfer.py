"""Sends a hub folder to the Hugging Face Hub, and fetches one, through `huggingface_hub`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from snm.errors import InputError
from snm.export.hub.folder import FILES
from snm.stores.address import is_hub_address
from snm.system.imports import requires_extra
from snm.text import first_line

__all__ = ["HubAddress", "check_client", "pull", "push"]

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}")
# A `Path` writes two slashes as one.
_URL = re.compile(rf"hf:/{{1,2}}({_PART}/{_PART})(?:@([\w./-]+))?", re.ASCII)


class HubAddress(NamedTuple):
    """A model on the Hub.

    Attributes:
      repository: `owner/name`.
      revision: branch, tag or commit; None is the main branch.
    """

    repository: str
    revision: str | None = None

    @classmethod
    def of(cls, text: str) -> HubAddress | None:
        """Parses `hf://owner/name` or `hf://owner/name@revision`.

        Returns None for other texts, such as the path of a folder.

        Raises:
          InputError: a text with `hf://` that is no such address.

        Example:
          >>> HubAddress.of("hf://owner/name@v1"), HubAddress.of("runs/a")
          (HubAddress(repository='owner/name', revision='v1'), None)
        """
        if not is_hub_address(text):
            return None
        if (found := _URL.fullmatch(text)) is None:
            raise InputError(ascii(text)[1:-1], "no address", "hf://owner/name, or with @revision")
        return cls(found[1], found[2])


def check_client(where: str, repository: str) -> None:
    """Checks the name of a repository and the client, before there is anything to send.

    Raises:
      InputError: the name is not `owner/name`, or huggingface_hub is not installed.
    """
    if _REPOSITORY.fullmatch(repository) is None:
        raise InputError(where, ascii(repository)[1:-1], "owner/name")
    _client(where)


def push(folder: Path, repository: str, *, private: bool = False) -> str:
    """Sends a hub folder in one commit; the repository is made if there is none.

    The token is that of `hf auth login`, or of `HF_TOKEN`.

    Args:
      folder: written by `write_hub`.
      repository: `owner/name`.
      private: whether only the owner can read a new repository.

    Returns:
      The address of the commit.

    Raises:
      InputError: the Hub refuses, or cannot be reached.
    """
    where = f"--push {repository}"
    hub = _client(where)
    try:
        api = hub.HfApi(library_name="snm")
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=list(FILES),
            delete_patterns=list(FILES),  # of an earlier model, such as its memory
            commit_message="A model of snm",
        )
    except Exception as error:
        expected = (
            f"an answer of the Hub; the model is in {folder}: `hf upload {repository} {folder}`"
        )
        _raise_input_error(where, error, expected)
    return str(commit)


def pull(address: HubAddress) -> Path:
    """Fetches the files of `FILES` that the cache of `huggingface_hub` lacks.

    Raises:
      InputError: no such model, or the Hub cannot be reached.
    """
    where = f"hf://{address.repository}" + (f"@{address.revision}" if address.revision else "")
    hub = _client(where)
    try:
        return Path(
            hub.snapshot_download(
                address.repository,
                revision=address.revision,
                allow_patterns=list(FILES),
                library_name="snm",
            )
        )
    except Exception as error:
        _raise_input_error(where, error, "a model on the Hub that can be read")


def _client(where: str) -> Any:
    with requires_extra(where, "hub"):
        import huggingface_hub
    return huggingface_hub


def _raise_input_error(where: str, error: Exception, expected: str) -> NoReturn:
    # The client raises its own errors, those of its HTTP library and of the system: all describe a
    # problem with the Hub, not with this program.
    # It quotes the errors of the connection after "Got: ".
    message = first_line(error).removeprefix("Got: ")
    found = message if message.endswith(" ...") else message.rstrip(".")
    raise InputError(where, found, expected) from error

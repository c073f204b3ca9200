"""Where a file ends up that is written under another name first, and then renamed."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def final_path(path: Path) -> Path:
    """Name to rename to: ``path``, or where it is a link, the file that it leads to.

    A file renamed to a link would take the link's place and leave the linked file as it was.

    Raises
    ------
    OSError
        Of a link that leads to itself, or of what a file may not take the place of: a device, a
        pipe, a folder.
    """
    final = Path(os.path.realpath(path)) if path.is_symlink() else path
    if final.is_symlink():
        raise OSError(errno.ELOOP, f"{path} is a link that leads to itself: name a file")
    if final.exists() and not final.is_file():
        raise OSError(
            errno.EINVAL, f"{path} is no regular file: name one, or one that is not there yet"
        )
    return final

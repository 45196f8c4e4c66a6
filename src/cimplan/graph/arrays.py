"""NumPy files from anybody: read without pickle, or refused."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from cimplan.errors import InputError
from cimplan.files import open_input

_DAMAGED = (
    ArithmeticError,  # a size beyond what a machine counts
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,  # an encrypted archive, a packing that is not known here, a header nested too deeply
    SyntaxError,
    TypeError,
    ValueError,
    lzma.LZMAError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(path: Path, fix: str) -> np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]:
    """Return the array of a .npy file, or the arrays of a .npz file by name.

    Parameters
    ----------
    path : Path
        The file; what it is follows from its content.
    fix : str
        What to do about a file that cannot be read, for the error.

    Raises
    ------
    InputError
        If it cannot be read, is damaged, or holds objects, which only code in the file could make.
    """
    try:
        with open_input(path) as stream:
            found = np.load(stream, allow_pickle=False)
            if isinstance(found, np.lib.npyio.NpzFile):
                with found as archive:
                    arrays = {name: archive[name] for name in archive.files}
                # NumPy hands out as bytes what is no array.
                if all(isinstance(array, np.ndarray) for array in arrays.values()):
                    return arrays
                raise TypeError
            return np.asarray(found)
    except OSError as error:
        raise InputError("cannot be read", where=str(path), why=str(error.strerror or error)[:200], fix=fix) from error
    except _DAMAGED as error:
        # NumPy takes whatever it does not know for pickled objects, and says how to load such files unsafely.
        why = "it is damaged, or holds objects"
        raise InputError("is not a NumPy file of numbers", where=str(path), why=why, fix=fix) from error

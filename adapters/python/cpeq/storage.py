"""Arrays and attributes in HDF5 files, bfloat16 among them, and files that appear only when they are complete."""

import os
from dataclasses import dataclass

import h5py
import numpy as np

FORMAT = "cpeq"
FORMAT_VERSION = 1


class FormatError(ValueError):
    """A file that is not what the format says; the message names file, object, expected and found."""


@dataclass(frozen=True)
class BFloat16:
    """bfloat16 values as the uint16 words that numpy can hold."""

    words: np.ndarray


@dataclass(frozen=True)
class Slice:
    """A part of a tensor of global_shape, from offset on; replicated: another rank holds the same part."""

    values: np.ndarray
    global_shape: tuple
    offset: tuple
    replicated: bool = False


def open_h5(path):
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise FormatError(f"{path}: expected a readable HDF5 file, found {error}") from error


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def attribute(item, name):
    value = item.attrs.get(name)
    return text(value) if isinstance(value, (bytes, str)) else value


def quoted(value):
    return "nothing" if value is None else f"\"{value}\""


def is_bfloat16(dataset):
    """Stored as uint16 words with a note, or as an HDF5 float of bfloat16's fields."""
    if attribute(dataset, "dtype") == "bfloat16":
        return True
    kind = dataset.id.get_type()
    return isinstance(kind, h5py.h5t.TypeFloatID) and kind.get_size() == 2 and kind.get_fields()[2] == 8


def read_stored(dataset):
    """The array with the element type that fixture_id is computed over: bfloat16 as uint16 words."""
    array = np.asarray(dataset[()])
    if is_bfloat16(dataset) and array.dtype != np.uint16:
        array = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return little_endian(array)


def widened(dataset, stored):
    if is_bfloat16(dataset):
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored


def little_endian(array):
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def words(value):
    """An array, a number or BFloat16 as the array that is stored."""
    return np.asarray(value.words, order="C") if isinstance(value, BFloat16) else np.asarray(value)


def _named_bfloat16(value):
    """BFloat16 of an array whose dtype is called that, as jax makes them; anything else as it is."""
    if getattr(getattr(value, "dtype", None), "name", "") != "bfloat16":
        return value
    return BFloat16(np.asarray(value, order="C").view(np.uint16))


def strings(value):
    """A list of text as an attribute; anything else as it is."""
    return np.array(list(value), dtype=h5py.string_dtype()) if isinstance(value, (list, tuple)) else value


def write_array(group, name, value):
    """Write text, an array, a number, BFloat16, or a Slice of one of these."""
    part = value if isinstance(value, Slice) else None
    value = _named_bfloat16(part.values if part else value)
    if isinstance(value, str):
        item = group.create_dataset(name, data=value, dtype=h5py.string_dtype())
    else:
        item = group.create_dataset(name, data=words(value))
    if isinstance(value, BFloat16):
        item.attrs["dtype"] = "bfloat16"
    if part:
        item.attrs.update({"global_shape": np.array(part.global_shape, np.int64),
                           "offset": np.array(part.offset, np.int64)})
        if part.replicated:
            item.attrs["replicated"] = 1


def write_atomically(path, write):
    """Write beside the target and rename, so that nobody reads half a file."""
    path = os.fspath(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with h5py.File(temporary, "w") as file:
            write(file)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)

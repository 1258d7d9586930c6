"""What libraries raise over a file that is not what it should be: each reader turns it into an error of its own.

Found by changing every byte of such files; tests do it again.
"""

import struct
import zlib
from tokenize import TokenError
from zipfile import BadZipFile

import msgspec

try:
    from lzma import LZMAError
except ImportError:  # a Python built without it, where zipfile says RuntimeError
    LZMAError = RuntimeError  # type: ignore[assignment,misc]

# ValueError: not UTF-8, or a number of thousands of digits; RecursionError: nested without end
NOT_TOML = (ValueError, RecursionError)
NOT_DECODED = (msgspec.MsgspecError, ValueError, RecursionError)  # the same in JSON and MessagePack
NOT_UNPACKED = (OSError, EOFError, zlib.error)  # of gzip: cut off, or with another byte in its stream
# numpy reads the header of an array, a Python literal, before zipfile has seen the whole of a long one and compared its
# checksum; another byte in the directory has it unpacked by any method that zipfile knows
NOT_ARRAYS = (
    *NOT_DECODED,
    *NOT_UNPACKED,
    LookupError,
    TypeError,
    OverflowError,
    RuntimeError,
    MemoryError,
    BadZipFile,
    LZMAError,
    struct.error,
    SyntaxError,
    TokenError,
)

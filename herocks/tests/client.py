"""A program in Python that loads librocksdb while it runs: client.py DIR."""

import ctypes
import sys

lib = ctypes.CDLL("librocksdb.so.7.8")
for name in ("rocksdb_options_create", "rocksdb_open", "rocksdb_writeoptions_create", "rocksdb_readoptions_create"):
    getattr(lib, name).restype = ctypes.c_void_p
lib.rocksdb_get.restype = ctypes.c_void_p

error = ctypes.c_char_p()
options = ctypes.c_void_p(lib.rocksdb_options_create())
lib.rocksdb_options_set_create_if_missing(options, ctypes.c_ubyte(1))
db = ctypes.c_void_p(lib.rocksdb_open(options, sys.argv[1].encode(), ctypes.byref(error)))
assert error.value is None, error.value
write = ctypes.c_void_p(lib.rocksdb_writeoptions_create())
read = ctypes.c_void_p(lib.rocksdb_readoptions_create())
for number in range(1000):
    key, value = b"key%04d" % number, b"value%d" % number
    lib.rocksdb_put(db, write, key, ctypes.c_size_t(len(key)), value, ctypes.c_size_t(len(value)), ctypes.byref(error))
    assert error.value is None, error.value
for number in range(1000):
    key, length = b"key%04d" % number, ctypes.c_size_t()
    found = lib.rocksdb_get(db, read, key, ctypes.c_size_t(len(key)), ctypes.byref(length), ctypes.byref(error))
    assert ctypes.string_at(found, length.value) == b"value%d" % number
    lib.rocksdb_free(ctypes.c_void_p(found))
lib.rocksdb_close(db)
print("client.py: done")

// Marks the functions that stand in the place of RocksDB's: nothing else leaves this library.
#pragma once

#define HEROCKS_EXPORTED __attribute__((visibility("default")))

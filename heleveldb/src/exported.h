// Marks the functions that stand in the place of LevelDB's: nothing else leaves this library.
#pragma once

#define HELEVELDB_EXPORTED __attribute__((visibility("default")))

# Two commands matter: `make run` shows Heliox at work, `make test` proves it.
# Both install what is missing first (scripts/setup).

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
export CARGO_TARGET_DIR := $(TARGET_DIR)

PREFIX ?= /usr/local

.PHONY: help setup build capi install-capi herocks heleveldb migrate run test test-long bench bench-long tidy fmt clean

help:
	@echo "make run        install what is missing, build, show the store at work in ./heliox-data"
	@echo "make test       install what is missing, build, and pass every test"
	@echo "make test-long  the same tests with more and longer random runs"
	@echo "make bench      Heliox beside RocksDB, into bench-results/quick.html (RocksDB compiles for long, once)"
	@echo "make bench-long a longer benchmark of Heliox alone in ./heliox-data"
	@echo "make build      the release build: $(TARGET_DIR)/release/heliox"
	@echo "make capi       the library for C and C++, as it would be installed: $(TARGET_DIR)/capi"
	@echo "make install-capi PREFIX=/usr/local  the same, installed (after make capi; docs/c-api.md)"
	@echo "make herocks    librocksdb 7.8 with Heliox in it, for programs as they are: $(TARGET_DIR)/herocks (docs/herocks.md)"
	@echo "make heleveldb  libleveldb 1.23 with Heliox in it, for programs as they are: $(TARGET_DIR)/heleveldb (docs/leveldb.md)"
	@echo "make migrate    what heliox import and export read and write LevelDB and RocksDB with (docs/migration.md)"
	@echo "make tidy       layering, size and text rules of the source"
	@echo "make fmt        format the source"
	@echo "make clean      remove build output and ./heliox-data"

setup:
	@scripts/setup

build: setup
	scripts/cargo build --locked --release -p heliox-cli

capi: setup
	scripts/cargo rustc --locked --release -p heliox-capi --lib --crate-type cdylib,staticlib
	DESTDIR= scripts/install-capi $(TARGET_DIR)/release $(TARGET_DIR)/capi

# Builds nothing, so that it may run as another user than the one who built.
install-capi:
	scripts/install-capi $(TARGET_DIR)/release $(PREFIX)

herocks:
	scripts/setup herocks
	scripts/cargo build --locked --release -p heliox-cli
	scripts/cargo rustc --locked --release -p heliox-capi --lib --crate-type cdylib,staticlib
	$(MAKE) -C herocks OUT=$(abspath $(TARGET_DIR))/herocks \
		HELIOX_A=$(abspath $(TARGET_DIR))/release/libheliox_c.a

heleveldb:
	scripts/setup heleveldb
	scripts/cargo build --locked --release -p heliox-cli
	scripts/cargo rustc --locked --release -p heliox-capi --lib --crate-type cdylib,staticlib
	$(MAKE) -C heleveldb OUT=$(abspath $(TARGET_DIR))/heleveldb \
		HELIOX_A=$(abspath $(TARGET_DIR))/release/libheliox_c.a

migrate: build
	scripts/setup migrate
	$(MAKE) -C heleveldb migrate OUT=$(abspath $(TARGET_DIR))/migrate

run: build
	scripts/demo

test:
	scripts/setup test
	scripts/test

test-long:
	scripts/setup test
	scripts/test long

# Under ten minutes once it is built. Other engines: docs/benchmarks.md.
bench:
	scripts/setup bench
	scripts/bench

bench-long: build
	$(TARGET_DIR)/release/heliox bench --dir heliox-data \
		--workload fillrandom,readrandom,readmissing,overwrite,readwhilewriting,seekrandom,scan \
		--num 2000000 --key-size 16 --value-size 100 --threads 2 --duration 20 \
		--json $(TARGET_DIR)/bench.json

tidy:
	scripts/cargo run -q -p xtask -- tidy

fmt:
	scripts/cargo fmt --all
	scripts/cargo fmt --manifest-path fuzz/Cargo.toml
	scripts/cargo fmt --manifest-path bench-compare/Cargo.toml

clean:
	scripts/cargo clean
	rm -rf fuzz/target bench-compare/target bench-results heliox-data

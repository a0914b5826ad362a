# Two commands matter: `make run` shows Heliox at work, `make test` proves it.
# Both install what is missing first (scripts/setup).

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
export CARGO_TARGET_DIR := $(TARGET_DIR)

.PHONY: help setup build run test test-long bench bench-long tidy fmt clean

help:
	@echo "make run        install what is missing, build, show the store at work in ./heliox-data"
	@echo "make test       install what is missing, build, and pass every test"
	@echo "make test-long  the same tests with more and longer random runs"
	@echo "make bench      Heliox beside RocksDB, into bench-results/quick.html (RocksDB compiles for long, once)"
	@echo "make bench-long a longer benchmark of Heliox alone in ./heliox-data"
	@echo "make build      the release build: $(TARGET_DIR)/release/heliox"
	@echo "make tidy       layering, size and text rules of the source"
	@echo "make fmt        format the source"
	@echo "make clean      remove build output and ./heliox-data"

setup:
	@scripts/setup

build: setup
	scripts/cargo build --locked --release -p heliox-cli

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

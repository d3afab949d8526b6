# Two commands matter: `make run` and `make test`. Both install what is missing from Debian's packages first.

SHELL := /bin/bash
export SWIFT_BACKTRACE := enable=no
RELEASE := .build/release
STATIC := -c release --static-swift-stdlib

.PHONY: help run test build release deps lint corpora sanitize bench attack overload rotate soak fuzz prove schema image-root long clean
# Of each target, of the soak.
FUZZ_SECONDS ?= 1200
SOAK_MINUTES ?= 60

help:
	@echo 'make run       build, start the endpoint (with the simulator unless JANUARY_API_KEY is set), mint one token, stay up'
	@echo 'make test      build and run every test'
	@echo 'make release   the two programs, statically linked to the Swift runtime: $(RELEASE)'
	@echo 'make lint      formatting'
	@echo 'make corpora   the shared HTTP and JWT corpora against the release binary (needs ../shared/corpora)'
	@echo 'make sanitize  the tests under the address and the thread sanitizer'
	@echo 'make bench     side by side with nginx'
	@echo 'make attack    slow, silent, greedy and vanishing clients beside honest ones: who is cut when, latency, memory'
	@echo 'make overload  ten times what January can take, and 100,000 apps that come back at once: who is served, refused, how fast'
	@echo 'make soak      an hour at 70 % load while January fails in every way: memory, threads, descriptors'
	@echo 'make fuzz      each fuzz target for 20 minutes, two at a time'
	@echo 'make rotate    the API key rotated ten times under 500 mints a second: no mint may fail'
	@echo 'make prove     11,500 interleavings of mints and revocations, 300 kills: no promise of a revocation may be broken'
	@echo 'make schema    config/schema.json anew'
	@echo 'make image-root  the image without a container engine: its runtime stage in a folder, run read-only (root, Debian)'
	@echo 'make long      corpora, sanitizers, attacks, overload, the soak, the proof, 20 minutes a fuzz target, the benchmark with more rounds'

deps:
	@scripts/install-dependencies build

release: deps
	swift build $(STATIC) --product january-token-endpoint
	swift build $(STATIC) --product january-simulator

run: release
	@scripts/run

build: deps
	swift build --build-tests

test: build
	# One test at a time: they share two processors, and several drive a real server against real time.
	@scripts/test

lint:
	swift format lint -s -r Sources Tests Package.swift

corpora: release
	@scripts/corpora

sanitize: deps
	scripts/sanitize address
	scripts/sanitize thread

bench: release
	@scripts/install-dependencies bench
	bench/run

attack: release
	@scripts/install-dependencies attack
	bench/attack

overload: release
	@scripts/install-dependencies attack
	bench/overload
	bench/herd

soak: release
	@scripts/install-dependencies attack
	bench/soak --minutes $(SOAK_MINUTES)

fuzz: deps
	fuzz/run $(FUZZ_SECONDS)

rotate: release
	bench/rotate

prove: release
	@scripts/install-dependencies servers
	scripts/prove long

schema: build
	UPDATE_SCHEMA=1 swift test --skip-build --filter ConfigFiles

image-root: release
	scripts/image-root

long: corpora sanitize attack overload rotate soak fuzz prove
	bench/run --rounds 9

clean:
	rm -rf .build bench/out

# Every step that continuous integration runs is a target here; `make help` lists them.
.DEFAULT_GOAL := help

LINT_VERSION := v2.11.4
VULN_VERSION := v1.1.4
LINT := .tools/golangci-lint-$(LINT_VERSION)/golangci-lint
ACTIONLINT_VERSION := v1.7.12
ACTIONLINT := .tools/actionlint-$(ACTIONLINT_VERSION)/actionlint

COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# Views and pools are checked harder under the tag invariants: where code has it, and the packages that use them, whose short
# tests `make long` repeats with the tag, and all allocation tables. `make invariants` tests all.
# Packages below these that link none of the code with the tag (internal/store/diskcache, internal/store/sharedcache) are left out.
INVARIANTS := ./fleet/activeseries ./sizegen/bytecache ./internal/mysql/sqlplan ./fleet/frontend ./internal/history/stmtstats ./store/tsblock ./internal/slab ./store/storegateway ./internal/store/blocksync ./internal/store/storeapi
# Tests of many blocks or faults, which use slabs as the others do: under the tag they are in `make invariants` and `make e2e` alone.
MANYBLOCKS := ^(TestS3Faults|TestMixedResolutions|TestManySmallBlocks|TestTenThousandBlocks|TestWindows.*)$$
ALLOCATIONS := ./internal/history/calls ./internal/history/explain ./gateway ./internal/history/markers ./mysql/mysqlwire ./querylog ./mysql/rowstream ./mysql/sqldigest ./internal/move/throttle ./internal/tick

# Where goroutines share memory and a run is short; of the other packages, the tests that share it. `make race` has all.
# The detector compiles every dependency again. Packages that depend on Vitess' parser or a binlog client take half of
# that time: their tests are in `make race-parser`, a part of `make e2e`.
RACE := ./internal/slab ./internal/tick ./internal/netloop ./internal/gateway/switchover
RACETESTS := ^(TestConcurrent.*|TestTrackerConcurrent|TestOneComputation|TestEveryLineArrives|TestSlowReader|TestExchangeNeverLeaks|TestSwitchUnderLoad|TestWhileHeld|TestDrain|TestKill|TestOddLogins|TestPanicEndsOneSession|TestReadBuffersAreShared|TestWaitingSessionsHaveNoQuery|TestWorkOfASessionIsBounded|TestPlanMissLeavesItsLoop)$$
RACESOME := ./fleet/activeseries ./querylog ./sizegen/bytecache ./internal/history/stmtstats
RACEPARSER := ./gateway ./mysql/mysqlconn ./internal/mysql/sqlplan

# The newest release that CHANGELOG.md describes.
RELEASED := $(shell sed -n 's/^\#\# \[\([0-9.]*\)\].*/v\1/p' CHANGELOG.md | head -n 1)

# How long each fuzz target and each benchmark runs, and on what.
FUZZTIME ?= 30s
FUZZLOGTIME ?= 10m
FUZZRULESTIME ?= 10m
BENCHTIME ?= 1s
PACKAGES ?= ./...

MARIADB := $(CURDIR)/.tools/mariadb-11.8

# A commit of April 2026: the Go proxy has no version by the name of a release.
MIMIR_VERSION := v1.3.1-0.20260423142704-aced80d74930

# GOGC of the compiler, vet and the tests that run without the race detector and the tag invariants: fewer collections, a quarter less CPU
# for compiling. A part of soak has Go's default.
TESTGOGC ?= 400

# Packages of the relay, for make arm64.
ARM64 := ./internal/netloop ./mysql/mysqlwire ./mysql/mysqlconn ./mysql/sqldigest ./internal/mysql/sqlplan ./querylog ./internal/history/stmtstats ./internal/slab ./gateway

# Flags of make conformance, such as -conformance.sample=0 for all cases, or -conformance.servers=mysql
# -conformance.suites=json,gcol; the servers with their suites.
CONFORMANCE ?=
SUITES := mariadb-10.11 mariadb-11.8 mysql
CONFORM := go test -C e2e -tags e2e -count=1 -v -timeout 12h ./conformance -args
CLIENTS ?= all
CLIENTSUITES := go test -C e2e -tags e2e -count=1 -v -timeout 12h -run '^TestClientSuites$$' ./conformance -args -conformance.limit 10m
BINLOGORACLE := go test -C e2e -tags e2e -count=1 -v -timeout 12h -run '^TestBinaryLogs$$' ./conformance -args

# How often soak runs the suite.
ROUNDS ?= 20

# Stages of make e2e; all if it is empty.
STAGES ?=

# How often seeds runs a test.
SEEDRUNS ?= 20

.PHONY: help build release release-twice install-drills sign release-sizegen run check test long soak seeds invariants race race-parser arm64 lint fuzz fuzz-log fuzz-rules e2e e2e-mariadb conformance client-suites binlog-oracle settings mutants suites mysql mariadb mimir tidb screenshots bench bench-relay bench-alter bench-blocks bench-manyblocks bench-fleet bench-dump bench-sizers vuln api test-sizegen origins generate clean

help: ## list the targets
	@sed -n 's/^\([a-z][a-z0-9-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: ## build bin/tare and bin/tare-demo
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/tare
	cd cmd/tare-demo && go build -ldflags '$(LDFLAGS)' -o ../../bin/ .

release: ## build archives, packages and the image of VERSION, such as v0.1.0, into bin/release; the same commit gives the same bytes
	.ci/release $(VERSION) bin/release

release-twice: ## the same, and again from a clone with an empty build cache: fails unless all bytes are the same
	.ci/release-twice $(VERSION) bin/release

install-drills: ## install, start, upgrade and remove the packages of VERSION in a fresh Debian, run its image, and time a stranger's first minutes; as root
	[ -e bin/drills/$(COMMIT)/SHA256SUMS ] || { rm -rf bin/drills && PLATFORMS=linux-$$(go env GOARCH) .ci/release $(VERSION) bin/drills/$(COMMIT); }
	$(if $(filter 0,$(shell id -u)),,sudo env "PATH=$$PATH") .ci/install-drills $(VERSION) bin/drills/$(COMMIT)
	$(if $(filter 0,$(shell id -u)),,sudo env "PATH=$$PATH") .ci/first-minutes $(VERSION) bin/drills/$(COMMIT)

sign: ## sign the checksums of bin/release with KEY, a minisign key that stays with the releaser
	.ci/packages minisign
	.ci/sign "$(KEY)" bin/release

release-sizegen: ## tag sizegen at VERSION as a module that requires nothing
	.ci/release-sizegen $(VERSION)

run: build ## show the gateway at work on an embedded database
	bin/tare demo

check: ## before each commit: vet, short tests of what changed, within 2 minutes
	.ci/check

test: ## vet and test everything, long tests in part, check generated sizes and modules; installs a missing MariaDB server
	.ci/packages mariadbd gcc
	.ci/tidy & tidy=$$!; GOGC=$(TESTGOGC) go vet ./... && go tool sizegen -verify ./...; status=$$?; wait $$tidy && exit $$status # downloads and compiles
	GOGC=$(TESTGOGC) go test -p 4 -vet=off -short -timeout 30m ./... # many tests wait for servers, on a busy machine for long
	cd e2e && GOGC=$(TESTGOGC) go test -vet=off ./... # without the tag, the tests that need no servers

long: ## what make test leaves out: the rest of long tests, the demo, packages, the tag invariants and the race detector
	.ci/packages mariadbd gcc
	GOGC=$(TESTGOGC) go test -p 4 -vet=off -timeout 30m ./...
	go test -vet=off -timeout 30m -run '^TestFileFaults$$' ./internal/history/stmtstats ./history ./store/storegateway -file-fault-slice 1
	GOGC=$(TESTGOGC) go test -vet=off -short -tags invariants -skip '$(MANYBLOCKS)' $(INVARIANTS)
	go test -vet=off -run Alloc -tags invariants $(ALLOCATIONS)
	cd cmd/tare-demo && GOGC=$(TESTGOGC) go test -vet=off ./...
	cd .ci/pack && go test . # the contents of packages and image
	go test -vet=off -short -race $(RACE)
	go test -vet=off -short -race -run '$(RACETESTS)' $(RACESOME)

soak: ## make test ROUNDS (20) times, half of them two at a time; failed rounds are kept in bin/soak
	.ci/soak $(ROUNDS)

seeds: ## run each test with a random part SEEDRUNS (20) times by itself, with new seeds, resumable; failed runs are kept in bin/seeds
	.ci/packages mariadbd gcc
	.ci/seeds $(SEEDRUNS)

invariants: ## test with the tag invariants, long tests too
	.ci/packages mariadbd gcc
	go test -tags invariants ./...

race: ## test everything with the race detector
	.ci/packages mariadbd gcc
	go test -race $(PACKAGES)

race-parser: ## test what depends on the SQL parser and shares memory with the race detector, short tests
	.ci/packages mariadbd gcc
	go test -vet=off -short -race ./internal/web/memory
	go test -vet=off -short -race -run '$(RACETESTS)' $(RACEPARSER)

lint: $(LINT) $(ACTIONLINT) ## run the linters of .golangci.yml; vet for other platforms; check workflows and manifests
	$(LINT) run $(PACKAGES)
	GOOS=darwin go vet ./...
	GOARCH=arm64 go vet ./gateway/... ./internal/gateway/... $(ARM64)
	$(ACTIONLINT)
	go test -C e2e ./manifests
	go test -run '^Test(Kubernetes|Compose|ImagesArePinned|ActionsArePinned)$$' ./cmd/tare

$(ACTIONLINT):
	GOBIN=$(CURDIR)/$(dir $(ACTIONLINT)) go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

$(LINT):
	GOBIN=$(CURDIR)/$(dir $(LINT)) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

fuzz: ## run each fuzz target for FUZZTIME (30s) on PACKAGES
	.ci/fuzz $(FUZZTIME) $(PACKAGES)

fuzz-log: ## run random statements on followed tables for FUZZLOGTIME (10m) on each server
	e2e/run -run '^TestFuzzLog$$' -v -timeout 3h -fuzzlog.duration=$(FUZZLOGTIME)

fuzz-rules: ## try to evade the rules for FUZZRULESTIME (10m) on each server, TiDB included after make tidb
	e2e/run -run '^TestRuleFuzz(Mutants)?$$' -v -timeout 4h -fuzzrules.duration=$(FUZZRULESTIME) -fuzzrules.mutants=-1
	PATH="$(CURDIR)/.tools/mysql/bin:$$PATH" go test -count=1 -timeout 4h -run '^TestNames$$' -v ./gateway -names-duration $(FUZZRULESTIME) -names-workers 16
	PATH="$(CURDIR)/.tools/mysql/bin:$$PATH" go test -count=1 -timeout 4h -run '^TestAllowEffects$$' -v ./gateway -all-refusals -allow-duration $(FUZZRULESTIME)
	[ ! -x $(MARIADB)/bin/mariadbd ] || PATH="$(MARIADB)/bin:$$PATH" go test -count=1 -timeout 4h -run '^TestNames$$/^MariaDB$$' -v ./gateway -names-duration $(FUZZRULESTIME) -names-workers 16

# Tests that kill a process of theirs start their own binary, which the kernel cannot.
arm64: ## run the short tests of the relay, its log and its sizes as linux/arm64 under qemu
	.ci/packages mariadbd qemu-aarch64
	GOARCH=arm64 CGO_ENABLED=0 go test -exec qemu-aarch64 -short -count=1 -timeout 20m -skip '^TestKill' $(ARM64)
	cd sizegen && GOARCH=arm64 CGO_ENABLED=0 go test -exec qemu-aarch64 -short -count=1 -timeout 20m ./heapsize

e2e: export INVARIANTS := $(INVARIANTS)
e2e: export MANYBLOCKS := $(MANYBLOCKS)
e2e: export RELEASED := $(RELEASED)
e2e: mysql mariadb suites ## run the binary under real clients, drivers and sysbench, and long tests: STAGES (all) of .ci/e2e.stages, STAGEJOBS (1) at a time; resumes in bin/stages
	.ci/packages mariadbd gcc
	.ci/stages .ci/e2e.stages $(STAGES)

# What depends on the server: the protocol, the lexer, settings, warnings, types.
e2e-mariadb: mariadb suites ## run tests of the gateway, copies, alters and server counts, the Go driver's and the rule fuzzer on MariaDB 11.8
	PATH="$(MARIADB)/bin:$$PATH" go test -count=1 -timeout 30m ./mysql/mysqlconn ./gateway ./move/alter ./internal/history/serverstats
	PATH="$(MARIADB)/bin:$$PATH" go test -count=1 -timeout 15m -run '^Test(RefusalMemory|LongRefusal|Several|LastPrepared)$$/^(MariaDB)?$$' ./gateway -all-refusals
	PATH="$(MARIADB)/bin:$$PATH" go test -count=1 -timeout 30m -run '^(TestWarnings|TestZoo|TestForeignKeys|TestGenerated.*|TestApply)$$' ./move/copier ./internal/move/follow
	PATH="$(MARIADB)/bin:$$PATH" go test -C e2e -tags e2e -count=1 -timeout 60m -run '^TestSettings$$/^MariaDB$$' ./settings
	PATH="$(MARIADB)/bin:$$PATH" e2e/run -run '^TestRuleFuzz$$/^(MariaDB)?$$'
	$(CLIENTSUITES) -conformance.clients go-sql-driver -conformance.servers mariadb-11.8

settings: mysql ## every value of every variable that servers have, under tare copy, dump and alter; resumes in bin/settings.txt; SETTINGS: flags
	PATH="$(CURDIR)/.tools/mysql/bin:$$PATH" go test -C e2e -tags e2e -count=1 -v -timeout 72h ./settings -settings.cases -1 -settings.state $(CURDIR)/bin/settings.txt $(SETTINGS)

conformance: suites ## run 3,250 cases of each server's own test suites directly and through the gateway; resumes in bin/conformance; CONFORMANCE: flags
	$(CONFORM) -conformance.dir $(CURDIR)/bin/conformance -conformance.sample 3250 -conformance.corpus -conformance.counts 100 $(CONFORMANCE)

client-suites: suites ## run the test suites of CLIENTS (all) directly and through the gateway; resumes in bin/conformance; CONFORMANCE: flags
	$(CLIENTSUITES) -conformance.dir $(CURDIR)/bin/conformance -conformance.clients $(CLIENTS) $(CONFORMANCE)

binlog-oracle: suites ## compare a million row events of each server's binary log with its own program's reading; resumes in bin/conformance; CONFORMANCE: flags
	$(BINLOGORACLE) -conformance.dir $(CURDIR)/bin/conformance -conformance.binlog 1000000 $(CONFORMANCE)

mutants: ## change 12 random places of each package, one at a time, and list the changes that no test notices; resumes with the same SEED in bin/mutants.jsonl; MUTANTS: flags and packages
	.ci/packages mariadbd gcc
	mkdir -p bin
	PATH="$(CURDIR)/.tools/mysql/bin:$$PATH" go run ./internal/mutants -state bin/mutants.jsonl $(if $(SEED),-seed $(SEED)) $(MUTANTS)

suites: ## unpack the servers' own test suites into .tools: 560 MB to fetch, 4 GB on disk
	for suite in $(SUITES); do .ci/unpack $$suite-suite $(CURDIR)/.tools/$$suite-suite || [ $$? = 3 ] || exit 1; done

mysql: ## unpack MySQL 9.7 into .tools/mysql, beside a MariaDB of the system
	.ci/unpack mysql $(CURDIR)/.tools/mysql || [ $$? = 3 ]

mariadb: ## unpack MariaDB 11.8 into .tools/mariadb-11.8, for the tests that use several servers
	.ci/unpack mariadb $(MARIADB) || [ $$? = 3 ]

mimir: ## build Mimir's server into .tools/mimir, for the test of remote write that uses one: 7 minutes of CPU
	.ci/mimir $(MIMIR_VERSION) .tools/mimir || [ $$? = 3 ]

tidb: ## build TiDB's server into .tools/tidb, for the tests that use one
	.ci/tidb .tools/tidb

screenshots: ## make the pictures of docs/images, from the demo in a Chromium
	TARE_SCREENSHOTS=$(CURDIR)/docs/images e2e/run -run '^Test(Screenshots|Walks)$$'

bench: ## run the benchmarks of PACKAGES for BENCHTIME (1s) each
	.ci/packages mariadbd
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) $(PACKAGES)

bench-relay: ## run sysbench through the gateway, HAProxy and a plain forwarder; RELAY: flags (history and TLS: docs/background/benchmarks.md)
	.ci/packages mariadbd sysbench haproxy
	mkdir -p bin
	cd bench && go run ./relay -json ../bin/relay.json -bench ../bin/relay.txt $(RELAY)

bench-alter: mysql ## measure an ALTER TABLE under load beside gh-ost, spirit and pt-online-schema-change; ALTER: flags
	.ci/packages mariadbd sysbench
	cd bench && PATH="$(CURDIR)/.tools/mysql/bin:$$PATH" go run ./alter $(ALTER)

bench-blocks: ## measure the series of one block beside Thanos; BLOCKS: flags
	cd bench && go run ./blockseries $(BLOCKS)

bench-manyblocks: ## measure one series in 1, 100 and 10,000 blocks, in a directory and on S3, beside Thanos; MANY: flags
	.ci/thanos v0.41.0 $(CURDIR)/.tools/thanos-v0.41.0
	cd bench && go run ./manyblocks $(MANY)

bench-fleet: ## measure three stores behind a querier beside Thanos' own; FLEET: flags
	.ci/packages memcached
	.ci/thanos v0.41.0 $(CURDIR)/.tools/thanos-v0.41.0
	cd bench && go run ./fleet -memcached memcached $(FLEET)

bench-dump: ## dump a table to files and load it, beside mydumper; DUMP: flags
	.ci/packages mariadbd sysbench mydumper
	cd bench && go run ./copy -files $(DUMP)

bench-sizers: ## weigh ASTs, messages and API types by sizegen, beside other sizers; SIZERS: flags
	cd bench/sizers && go generate ./... && go run . $(SIZERS)

api: ## compare the Go API of the public packages with the last release
	.ci/api

vuln: ## look for known vulnerabilities in what is called, by govulncheck; skipped where its database cannot be reached
	.ci/vuln $(VULN_VERSION)

test-sizegen: ## test sizegen on the Go releases and experiments that it supports, and its tag; downloads them
	.ci/sizegen

origins: ## repeat the measurements of the changes that Tare comes from, old against new
	.ci/packages mariadbd
	cd bench && go run ./origins

generate: ## write the generated code and documentation again
	go generate ./...
	go test -count=1 ./cmd/tare -rewrite

clean: ## remove what was built
	rm -rf bin .tools

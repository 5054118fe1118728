# Parley. `make` alone lists the targets.

export CGO_ENABLED := 0
GO        ?= go
BIN       := bin/parley
FUZZTIME  ?= 10m
BENCHTIME ?= 1s

.PHONY: help
help: ## list the targets
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/parley for this machine
	$(GO) build -o $(BIN) ./cmd/parley

RELEASE := -trimpath -ldflags='-s -w'

.PHONY: release
release: ## build what we ship, stripped, at most 40 MB without the models: linux/amd64, linux/arm64, darwin/arm64
	GOOS=linux  GOARCH=amd64 $(GO) build $(RELEASE) -o bin/parley-linux-amd64  ./cmd/parley
	GOOS=linux  GOARCH=arm64 $(GO) build $(RELEASE) -o bin/parley-linux-arm64  ./cmd/parley
	GOOS=darwin GOARCH=arm64 $(GO) build $(RELEASE) -o bin/parley-darwin-arm64 ./cmd/parley
	./test/size.sh bin/parley-linux-amd64

.PHONY: build-bench
build-bench: build ## build bin/parley-bench, which compares with other programs
	$(GO) -C bench build -mod=mod -o ../bin/parley-bench ./cmd/parley-bench

.PHONY: run
run: build ## build and serve the built-in models on 127.0.0.1:8080
	$(BIN) serve

.PHONY: man
man: build ## write the manual pages of all commands to bin/man
	$(BIN) man bin/man

TIMED := ./test/timed.sh

# No test reads debugging information, and writing it is a sixth of the compiler's work. Inlining is a third of it for
# dependencies, in which tests spend little time.
LEAN := -dwarf=false -l
test: export GOFLAGS := $(shell $(GO) env GOFLAGS) -gcflags=all=-dwarf=false '-gcflags=github.com/...=$(LEAN)' \
	'-gcflags=google.golang.org/...=$(LEAN)'

.PHONY: test
test: ## everything a change must pass; installs what it needs, and prints what each part costs
	@$(TIMED) start
	@$(MAKE) --no-print-directory check
	@$(TIMED) part unit $(MAKE) --no-print-directory unit
	@$(TIMED) part build $(MAKE) --no-print-directory build
	@$(TIMED) part modules $(MAKE) --no-print-directory modules
	@$(TIMED) part clients $(MAKE) --no-print-directory clients
	@$(TIMED) part pages $(MAKE) --no-print-directory pages
	@$(TIMED) report

# Long, and rarely finds what `make test` does not: the release builds compile all dependencies again for three
# platforms (`make check` type-checks them instead), Helm is compiled from source to render one chart (`make unit`
# renders it with a subset), and slow programs that define what is correct run all cases (`make unit` takes some of
# them), three workers are restarted under 64 streams (`make unit` has 24), a JSON schema is answered a hundred times
# (`make clients` asks 32 times), the client of OpenAI for Go, a large library, is compiled (`make clients` has that for
# JavaScript in two generations), every page is tested in four looks (`make pages` has one for each file of tests),
# people sign in at dex, which is compiled from source (`make pages` has an issuer of its own), staticcheck examines the
# functions of all dependencies for five of its checks (`make check` runs the others), and `go fix` proposes newer forms
# of what is correct. Of the workers that fail under load, `make unit` has those that are killed and those that are
# restarted; `make chaos` has those that stand still, are cut off or send damaged blocks, which fleet, worker/wire and
# worker/kvwire test in parts.
.PHONY: test-long
test-long: fix staticcheck release helm cases chaos clients-all pages-all test-cold ## what takes long and rarely finds anything: go fix, all of staticcheck, release builds, the chart rendered by Helm, all cases of kernels and models, workers that fail, more clients and answers to each schema, pages in all looks, the cost of make test

.PHONY: staticcheck
staticcheck: ## all checks of staticcheck; make check leaves out S1011, SA4017, SA4018, SA4023 and SA5012
	$(GO) tool -modfile=tools.mod staticcheck ./...
	$(GO) -C bench tool -modfile=../tools.mod staticcheck ./...
	$(GO) -C tools tool -modfile=../tools.mod staticcheck ./...

.PHONY: fix
fix: ## fails if go fix would change anything
	$(GO) fix -diff ./...

.PHONY: cases
cases: ## all cases of the GPU kernels on an interpreter, of the models on the reference, the simulator compiled for arm64, 64 streams over restarts, and more texts under each schema
	$(GO) test ./compute/cuda ./model ./internal/lint -count=1 -timeout 1h -args -all
	$(GO) test ./worker/host -run '^TestRollingRestart$$' -count=1 -args -rolling 64
	$(GO) test ./engine/grammar -run '^TestNoiseWritesWhatTheSchemaAllows$$' -count=1 -args -noise 400

# In seconds of processor time. The cost of a change is felt by everyone who submits one. It is that of a machine without
# settings of its own: with -trimpath among them, the modules bench and tools compile all packages once more.
TEST_BAR := 1500

.PHONY: test-cold
test-cold: ## make test from a cold build cache; fails above 25 minutes of processor time
	@cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && GOENV=off GOCACHE=$$cache STATICCHECK_CACHE=$$cache/staticcheck $(MAKE) --no-print-directory test
	@$(TIMED) report $(TEST_BAR)

.PHONY: helm
helm: ## the chart rendered by Helm itself, which is built if it is not installed
	PARLEY_HELM=$$(./test/need-helm.sh) $(GO) test ./cmd/parley -count=1 -v -run TestHelmRendersTheChart

.PHONY: unit
unit: ## the Go tests; a skipped test is named with its reason
	./test/run-unit.sh

# -mod=mod: the requirements of these modules follow those of the one above them.
.PHONY: modules
modules: build ## the tests of the modules bench and tools
	$(GO) -C tools test -mod=mod -vet=off ./...
	PARLEY_BIN=$(CURDIR)/$(BIN) $(GO) -C bench test -mod=mod -vet=off ./...

.PHONY: clients
clients: build ## official client SDKs against the real binary
	PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-clients.sh

.PHONY: clients-all
clients-all: build ## the same and the client of OpenAI for Go, with a hundred answers to each JSON schema
	PARLEY_CLIENTS=all PARLEY_ANSWERS=100 PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-clients.sh

.PHONY: agents
agents: build ## real coding agents against the real binary, and before PARLEY_LLAMA_SERVER; writes docs/clients.md [ONLY="codex pi"]
	$(GO) build -o bin/scripted ./test/scripted
	PARLEY_BIN=$(CURDIR)/$(BIN) SCRIPTED_BIN=$(CURDIR)/bin/scripted ./test/run-agents.sh $(ONLY)

.PHONY: pages
pages: build ## the pages in a real browser against the real binary, some files of tests on a desktop and some on a phone
	PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-pages.sh

.PHONY: pages-all
pages-all: build ## the same, each test on a desktop and on a phone, light and dark, and signing in at dex
	PARLEY_LOOKS=all PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-pages.sh

.PHONY: security
security: build ## attacks on the real binary: behind nginx and a TCP forwarder, as another user, by foreign pages
	./test/need-nginx.sh
	$(GO) test ./cmd/parley ./cli/settings -count=1 -run 'TestSecurity|TestWorkerPublishesNothing|TestEventSockets|TestWorkersStay|OverTLS|TestSecrets|TestShortSecrets|TestReadable|TestFleetUpGivesKeys'
	$(GO) test ./gateway -count=1 -run 'TestEveryRouteDeclaresItsAccess|TestRoutesWithoutAccessAreRefused|TestOperatorRoutesNeedAnAdminKey'
	PARLEY_ATTACKS=all PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-pages.sh hostile.test.mjs
	$(GO) test ./worker/host -run '^$$' -fuzz '^FuzzWorkerWire$$' -fuzztime $(or $(FUZZTIME),1m)

.PHONY: screenshots
screenshots: build ## the same, and renews the pictures of the documents: bin/shots has those of all pages in all looks
	rm -rf bin/shots
	PARLEY_SHOTS=$(CURDIR)/bin/shots PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-pages.sh
	cd bin/shots && cp $$(grep -oh 'img/[a-z0-9-]*\.png' ../../README.md ../../docs/*.md | sort -u | sed 's,img/,,') ../../docs/img

.PHONY: web
web: ## build the pages again after a change in web/src; needs node 20.19 or newer
	cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent build

# Collecting garbage is a quarter of the processor time of these programs, and they end soon.
check: export GOGC := 400
check: export GOMEMLIMIT := 4GiB

.PHONY: check
check: ## gofmt, vet, types on all platforms and most of staticcheck, all without findings
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "gofmt would change:"; echo "$$unformatted"; exit 1; }
	$(TIMED) part vet-tool $(GO) -C tools build -mod=mod -o ../bin/vet ./vet
	$(TIMED) part vet $(GO) vet -vettool=$(CURDIR)/bin/vet ./...
	$(TIMED) part vet-bench $(GO) -C bench vet -mod=mod -vettool=$(CURDIR)/bin/vet ./...
	$(TIMED) part vet-tools $(GO) -C tools vet -mod=mod -vettool=$(CURDIR)/bin/vet ./...
	$(TIMED) part types ./test/types.sh

.PHONY: race
race: ## the Go tests under the race detector (needs a C compiler; installed if missing)
	./test/need-cc.sh
	./test/need-redis.sh
	CGO_ENABLED=1 ./test/postgres.sh $(GO) test -race -timeout 30m ./...

.PHONY: test-arm64
test-arm64: ## the processor's and the models' tests for arm64, emulated (about forty minutes on two cores; installs qemu if missing)
	./test/run-arm64.sh

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each (default ten minutes)
	./test/run-fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build ## tokenizer MB/s, and tokens/s of polly and of a 1B-shaped random model
	./test/run-bench.sh $(BIN) $(BENCHTIME)

.PHONY: bench-sim
bench-sim: ## simulate a million requests over 64 workers on one core; fails above 60 s of processor time [SIM_PART=0.1]
	GOMAXPROCS=1 $(GO) test ./sim -run '^$$' -bench '^BenchmarkMillion$$' -benchtime 1x -timeout 30m

.PHONY: sim-day
sim-day: build ## judge the scaler on a day of 50,000 requests/s at the peak, by parts of it within 30 minutes [PART="--share 0.001 --pace 3 --count 4"]
	$(BIN) sim scale examples/sim/consumer-day.yaml --within 30m $(or $(PART),--share 0.001 --pace 3 --count 4)

.PHONY: sim-truth
sim-truth: build ## compare the simulator with a real fleet of three workers here; fails if too far apart [TRUTH=600 seconds]
	./test/sim-truth.sh $(BIN) $(or $(TRUTH),600)

.PHONY: bench-store
bench-store: ## a small write beside a flood of large ones, in SQLite and PostgreSQL; fails where its p99 is above 250 ms
	./test/postgres.sh $(GO) test ./gateway/convo -run '^$$' -bench '^BenchmarkNeighbour$$' -benchtime $(or $(WRITES),1000)x

ROUNDS       ?= 6
LLAMA_BENCH  ?= llama-bench
LLAMA_SERVER ?= llama-server

.PHONY: bench-cpu
bench-cpu: build-bench ## compare with llama.cpp: make bench-cpu LLAMA_BENCH=path LLAMA_SERVER=path [ONLY=words] [ROUNDS=6]
	bin/parley-bench cpu --llama-bench $(LLAMA_BENCH) --llama-server $(LLAMA_SERVER) --models bin --keep bench/results --rounds $(ROUNDS) $(if $(ONLY),--only $(ONLY))

.PHONY: bench-mechanisms
bench-mechanisms: build-bench ## each mechanism of the engine off and on, against its floor; kept in bench/results and drawn in docs/
	bin/parley-bench mechanisms --keep bench/results --chart docs/mechanisms.svg

PAGE_ROUNDS ?= 9

.PHONY: bench-index
bench-index: build-bench ## how fast the router's index of blocks is; kept in bench/results, fails below its bars. Needs an idle machine
	bin/parley-bench index --keep bench/results

.PHONY: bench-page
bench-page: build ## how soon the chat can be used on a slow phone; kept in bench/results, fails beyond a second. Needs an idle machine
	KEEP=$(CURDIR)/bench/results ROUNDS=$(PAGE_ROUNDS) PARLEY_BIN=$(CURDIR)/$(BIN) ./test/run-pages.sh bench-page.mjs

STREAMS ?= 5000
BIFROST ?=

.PHONY: bench-gateway
bench-gateway: build-bench ## what passing the gateway costs, beside nginx [STREAMS=100000] [BEFORE=an older parley] [BIFROST=pid@url]; kept in bench/results
	./test/need-nginx.sh
	bin/parley-bench gateway --streams $(STREAMS) --keep bench/results $(if $(BIFROST),--bifrost $(BIFROST)) \
		$(if $(BEFORE),--before $(BEFORE)) $(if $(BEFORE_UPSTREAM),--before-upstream "$(BEFORE_UPSTREAM)")

.PHONY: storm
storm: ## a storm of retries against the gateway, in virtual time (drawn in docs/) and against a real server
	$(GO) test ./gateway -run 'TestStorm$$' -v -args -storm docs/storm.svg
	$(GO) test ./cmd/parley -run TestStormOnPolly -v -args -storm

WORKERS ?= 3
CHAOS   ?= 60s

.PHONY: fleet
fleet: build ## a gateway and WORKERS workers on this machine, and a live table of them; Ctrl-C ends all
	$(BIN) fleet up --workers $(WORKERS)

.PHONY: k8s
k8s: ## scale with a real Kubernetes API server and etcd, which are built into the user's cache (about fifteen minutes, once)
	PARLEY_KUBE=$$(./test/need-k8s.sh) $(GO) test ./cli/fleetctl -count=1 -v -timeout 30m -run TestRealKubernetes

.PHONY: scale-day
scale-day: build-bench ## three to six workers here follow the load of a compressed day; fails if a request fails or objectives are missed [DAY=20m]
	bin/parley-bench scale-day --day $(or $(DAY),20m)

.PHONY: chaos
chaos: ## kill, stop, cut off and restart real workers, and damage their blocks, under 64 streams, for CHAOS each (default a minute)
	./test/postgres.sh $(GO) test ./cmd/parley -run 'TestKilledWorkers|TestStoppedWorkers|TestRollingRestart|TestCutNetwork|TestFaultyBlocks|TestGatewaysSideBySide' -v -timeout 30m -args -chaos $(CHAOS)

.PHONY: foreign
foreign: ## drive engines of others for real: PARLEY_LLAMA_SERVER=llama-server PARLEY_VLLM_SIM=llm-d-inference-sim (absolute paths)
	$(GO) test ./worker ./worker/host ./cmd/parley -run 'Simulator|Llama' -count=1 -v -timeout 20m

.PHONY: kv-same
kv-same: ## 1,000 requests answered by one worker, and by one for prompts with one that decodes: the same tokens [SAME=1000]
	$(GO) test ./worker/host -run '^TestTogetherAndApart$$' -count=1 -v -timeout 2h -args -same $(or $(SAME),1000)

.PHONY: kv-choice
kv-choice: ## fetching prompts against computing them, over lengths and links, and what a gateway chooses; fails below its bar [CHOICES=5]
	$(GO) test ./worker/host -run '^TestFetchOrCompute$$' -count=1 -v -timeout 30m -args -choice $(or $(CHOICES),5)

.PHONY: kv-gap
kv-gap: ## gaps of 16 answers while prompts of 8,000 tokens arrive, together, apart and without; needs idle cores [GAP_CORES=0-6/7-13]
	$(GO) test ./worker/host -run '^TestGapsApart$$' -count=1 -v -timeout 1h -args -gap $(or $(GAP),15s) -gap-cores "$(GAP_CORES)"

.PHONY: kv-idle
kv-idle: ## what a fleet pays that could move blocks and never does, in processor time; fails above its bar [IDLE=8m]
	$(GO) test ./worker/host -run '^TestIdleTransfers$$' -count=1 -v -timeout 30m -args -idle $(or $(IDLE),8m)

.PHONY: kv-trace
kv-trace: ## what a fleet that moves blocks finds of the prompts of a trace in shared/data; fails below its bar
	$(GO) test ./route -run '^TestConversationTraceWithTransfers$$' -count=1 -v -timeout 20m -args -bar .275 -seeds 8

.PHONY: kv-store
kv-store: ## keys and values in a real Redis, a Redis cluster and a real S3 server, which are built and started here
	./test/need-redis.sh
	server=$$(./test/need-s3.sh) && PARLEY_S3_SERVER=$$server PARLEY_REDIS_CLUSTER=1 \
		$(GO) test ./worker/kvstore ./worker/host -run Store -count=1 -v -timeout 20m

SAFETY_DATA ?= ../shared/data/safety
SAFETY_CORPORA ?= ../shared/data/corpora
SAFETY_SETS ?=

.PHONY: train-safety
train-safety: ## train the safety classifier again: the same data gives the same bytes [SAFETY_DATA=folder SAFETY_CORPORA=folder]
	$(GO) -C tools build -mod=mod -o ../bin/safetytrain ./safetytrain && bin/safetytrain -data $(SAFETY_DATA) -corpora $(SAFETY_CORPORA) train

.PHONY: safety-report
safety-report: ## how good the safety classifier is; fails if a bar is missed, rewrites docs/safety.md if SAFETY_SETS is given [SAFETY_DATA=folder SAFETY_CORPORA=folder SAFETY_SETS=folder]
	$(GO) -C tools build -mod=mod -o ../bin/safetytrain ./safetytrain && bin/safetytrain -data $(SAFETY_DATA) -corpora $(SAFETY_CORPORA) -sets "$(SAFETY_SETS)" $(if $(SAFETY_SETS),-docs docs/safety.md) report

.PHONY: sbom
sbom: build ## a software bill of materials of bin/parley, CycloneDX 1.6, in bin/parley.cdx.json
	$(BIN) licenses --format cyclonedx > bin/parley.cdx.json

.PHONY: pack-ptx
pack-ptx: ## pack the compiled GPU kernels again, after a change of compute/cuda/ptx without make generate; needs xz
	./compute/cuda/kernels/pack.sh

.PHONY: generate
generate: ## write the generated files again: assembly kernels, GPU kernels, built-in models
	$(GO) generate ./...

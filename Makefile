# Everything a person or the build runs. `make demo` and `make test` need only Go.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)

PKGS      := ./...
# Pure packages and consensus also run under the race detector.
RACE_PKGS := ./health/... ./statestore/... ./policy/... ./routing/... ./consensus/... ./controller/... ./probe/... ./dnsserver/...

.PHONY: help demo build test race check fmt-check fix-fmt vet lint browser integration conformance bench bench-dns fuzz clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

demo: build ## three real nodes and three fake clusters on this machine
	./bin/quorate dev

build: ## bin/quorate, static
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/quorate ./cmd/quorate

test: ## the default suite
	$(GO) test -timeout 10m $(PKGS)

race: ## the race detector on the pure packages, consensus and the planes
	$(GO) test -race -timeout 20m $(RACE_PKGS)

check: fmt-check vet lint race ## all static checks and the race detector

fmt-check: ## gofumpt is clean
	@out=$$($(GO) tool -modfile=tools/go.mod gofumpt -l $$(git ls-files '*.go')); \
	if [ -n "$$out" ]; then echo "gofumpt would change (make fix-fmt):"; echo "$$out"; exit 1; fi

fix-fmt: ## let gofumpt mend what fmt-check found
	$(GO) tool -modfile=tools/go.mod gofumpt -w $$(git ls-files '*.go')

vet: ## go vet
	$(GO) vet $(PKGS)
	$(GO) vet -tags integration ./integration/... ./probe/...
	$(GO) vet -tags browser ./api
	$(GO) vet -tags conformance ./integration/conformance

lint: ## staticcheck
	$(GO) tool -modfile=tools/go.mod staticcheck -tags integration,browser,conformance $(PKGS)

browser: ## the console in a real browser (chromium)
	$(GO) test -tags browser -count=1 -timeout 10m -run '^TestBrowser' ./api

integration: build ## real servers for every check, real processes in network namespaces (root)
	$(GO) test -tags integration -count=1 -timeout 10m -run '^TestReal' ./probe
	$(GO) test -tags integration -count=1 -v -timeout 30m ./integration/cluster

conformance: build ## NSD, Knot, unbound, BIND, delv, dnsviz, zonemaster (root; docs/conformance.md)
	cd integration/conformance && $(GO) test -tags conformance -count=1 -timeout 15m

bench: build ## detection, cutover, start-up, idle cost, probing at scale, choosing and compiling
	@failed=0; \
	$(GO) run ./bench/demo -quorate ./bin/quorate || failed=1; \
	$(GO) run ./bench/probes -rounds 1 || failed=1; \
	$(GO) test -run '^$$' -bench . -benchtime 200ms ./health ./routing ./dnsserver || failed=1; \
	exit $$failed

# A whole run is written down; one of some rows, or with other rounds, is not.
bench-dns: build ## DNS on one core beside other servers (root, Debian); GATE=1 fails below the gates
	$(GO) run ./bench/dns -quorate ./bin/quorate $(if $(ROWS)$(ROUNDS),,-out docs/measured) \
		$(if $(GATE),-gate) $(if $(ROWS),-rows $(ROWS)) $(if $(ROUNDS),-rounds $(ROUNDS))

fuzz: ## each fuzz target for FUZZTIME
	@for t in $$(git grep -hoE '^func (Fuzz[A-Za-z0-9_]+)' -- '*_test.go' | awk '{print $$2}'); do \
		d=$$(dirname $$(git grep -lE "^func $$t\(" -- '*_test.go')); \
		echo "$$t ($$d)"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(or $(FUZZTIME),60s) ./$$d || exit 1; \
	done

clean: ## remove what make made
	rm -rf bin

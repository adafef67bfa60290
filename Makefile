# Everything runs from here; `make` alone lists the targets. Nothing is written outside the work tree but
# the compiled control plane, which lies under the user's cache folder and is shared by all clones.

SHELL      := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# Tests start some hundred Python processes of ours: without compiled files each would compile Alnair again, and
# pytest its 300 modules of tests.
unexport PYTHONDONTWRITEBYTECODE

PYTHON     ?= python3
VENV       := .venv
BIN        := $(VENV)/bin
STAMP      := $(VENV)/.stamp
WORKERS    ?= 2
PYTEST_ARGS ?=
ONCE       ?=
SHAPES     ?=
CONTESTANTS ?=
ROUNDS     ?=
SEED       ?= 1
PROFILE    ?=
PAIRS      ?= 20000
PODS       ?= 3000
FOLDER     ?=
CASES      ?= 5000
EVENTS     ?= 300
MINUTES    ?= 10
RUNS       ?= 300
REPLAY     ?=
FRESH      ?=
K8S        ?=

COMPILE    := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
              --no-emit-index-url --no-emit-find-links --no-annotate --no-header

.PHONY: help venv demo test unit interleaved lint lock crds deploy image control-plane test-compat clean
.PHONY: bench bench-extender soak conformance topology churn elastic failover chaos hunt

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP) ## Create .venv with the locked dependencies and the `alnair` command (PYTHON=python3.12 to choose)

$(STAMP): requirements/dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make venv: no '$(PYTHON)' on PATH; install Python 3.11 or newer, or say PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make venv: $$($(PYTHON) --version 2>&1) is too old; Alnair needs 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make venv: $(PYTHON) has no venv module; install your distribution's python3-venv package" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: venv ## The main job from nothing: control plane, helm install, operator, sample workloads (ONCE=1 ends by itself)
	$(BIN)/alnair demo $(if $(ONCE),--once)

test: venv control-plane lint ## Everything that must hold: lint, unit, chart, cluster and restart tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-compat: venv ## The cluster tests against another Kubernetes (K8S=v1.34.4), compiled first, about 12 min on two cores
	@[[ -n '$(K8S)' ]] || { echo "make test-compat: say which, such as K8S=v1.34.4" >&2; exit 2; }
	ALNAIR_KUBERNETES=$(K8S) $(BIN)/alnair cluster build
	ALNAIR_KUBERNETES=$(K8S) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(or $(PYTEST_ARGS),tests/cluster tests/sandbox)

unit: venv ## The tests that need no cluster, in a few minutes
	$(BIN)/python -m pytest tests/unit $(PYTEST_ARGS)

interleaved: venv control-plane ## Two gangs that fit alone but not together, created in turns (ROUNDS=50); last line is JSON
	ALNAIR_ROUNDS=$(or $(ROUNDS),50) $(BIN)/python -m pytest -n 0 -q --timeout 1200 tests/cluster/test_interleaved.py | tee /dev/stderr | grep '^{' | tail -1

lint: venv ## ruff, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

lock: venv ## Pin the dependencies anew into requirements/*.lock (names, versions and hashes only)
	$(COMPILE) --upgrade pyproject.toml --output-file requirements/runtime.lock
	$(COMPILE) --upgrade pyproject.toml --group dev --output-file requirements/dev.lock
	$(COMPILE) --upgrade requirements/go.in --output-file requirements/go.lock

crds: venv ## Generate crds/ and the chart's copies from the models
	$(BIN)/alnair crds --write crds

deploy: venv ## Write deploy/static-pod.yaml from the chart
	$(BIN)/python -m deploy.static_pod --write deploy/static-pod.yaml

image: venv ## Build the image without a Docker daemon into dist/: OCI archive and SBOM (FRESH=1: with today's Debian packages)
	$(BIN)/python -m deploy.image --into dist $(if $(FRESH),--fresh)

control-plane: venv ## Obtain the control plane: compiled once (about ten minutes on two cores), then cached
	$(BIN)/alnair cluster build

bench: venv control-plane ## Throughput side by side with kube-scheduler, 40 min (SHAPES=a,b CONTESTANTS=a,b ROUNDS=n SEED=n PROFILE=1)
	@$(BIN)/python -m bench --shapes='$(SHAPES)' --contestants='$(CONTESTANTS)' $(if $(ROUNDS),--rounds=$(ROUNDS)) \
	  --seed=$(SEED) $(if $(PROFILE),--profile) --plot=docs/bench/throughput.svg

bench-extender: venv control-plane ## What the extender costs against a second scheduler, 6 min (ROUNDS=n); last line is JSON
	@$(BIN)/python -m bench.extender $(if $(ROUNDS),--rounds=$(ROUNDS)) --plot=docs/bench/extender.svg

conformance: venv control-plane ## Our filters against the real kube-scheduler, 3 min (SEED=n PAIRS=n FOLDER=where disagreements go)
	@PYTHONPATH=tests $(BIN)/python -m conformance --seed=$(SEED) --pairs=$(PAIRS) $(if $(FOLDER),--folder='$(FOLDER)')

topology: venv ## Our NUMA alignment against the kubelet's own code, 2 min (SEED=n CASES=n); last line is JSON
	@PYTHONPATH=tests $(BIN)/python -m topology --seed=$(SEED) --cases=$(CASES)

churn: venv control-plane ## Pods of every GPU request come and go, cards fail; the ledger checked at every revision (SEED=n PODS=n FOLDER=for the log)
	@PYTHONPATH=tests $(BIN)/python -m churn --seed=$(SEED) --pods=$(PODS) $(if $(FOLDER),--folder='$(FOLDER)')

elastic: venv control-plane ## Elastic gangs live through random events; sizes and idle cards judged, 15 min (SEED=n EVENTS=n FOLDER=for the log)
	@PYTHONPATH=tests $(BIN)/python -m elastic --seed=$(SEED) --events=$(EVENTS) $(if $(FOLDER),--folder='$(FOLDER)')

failover: venv control-plane ## Two replicas under load, the leader killed or paused 100 times (SEED=n ROUNDS=n FOLDER=for the logs)
	@PYTHONPATH=tests $(BIN)/python -m failover --seed=$(SEED) --rounds=$(or $(ROUNDS),100) $(if $(FOLDER),--folder='$(FOLDER)')

hunt: venv control-plane ## Operators with one bug each let loose on the scenarios of make chaos: told which are caught; last line is JSON
	@PYTHONPATH=tests $(BIN)/python -m chaos.hunt $(if $(FOLDER),--folder='$(FOLDER)')

soak: venv control-plane ## Recovery, a flood, and pods coming and going on 2,000 nodes (MINUTES=10); last line is JSON
	@$(BIN)/python -m bench.soak --minutes=$(MINUTES) --seed=$(SEED) --plot=docs/bench/soak.svg

chaos: venv control-plane ## Kills at every write, then drawn fault histories, about 55 min (SEED=n RUNS=n HISTORIES=only; REPLAY='gang-4 3:kill-after'; FOLDER=for logs)
	@PYTHONPATH=tests $(BIN)/python -m chaos --seed=$(SEED) --runs=$(RUNS) $(if $(HISTORIES),--histories-only) $(if $(REPLAY),--replay='$(REPLAY)') $(if $(FOLDER),--folder='$(FOLDER)')

clean: ## Remove what make wrote in the work tree (the compiled control plane in the cache folder stays)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

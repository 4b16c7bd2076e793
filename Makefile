# Two commands do everything on a fresh machine: `make demo` and `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A value as one word of the shell, whatever is in it.
q = '$(subst ','\'',$(1))'
PYTHON ?= python3
# Slow things live outside the checkout, each under a key made of its inputs. Not exported: an
# ordinary user's builds belong on scratch unless RUNNER_CACHE was really set.
RUNNER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/horovod-runner
# An environment for each list of requirements; one that is there is kept.
environment = $(RUNNER_CACHE)/$(1)-$(shell $(call q,$(PYTHON)) -V 2>&1 | cat - $(2) | sha256sum | cut -c1-12)
in_environment = PATH=$(call q,$(1)/bin):"$$PATH" PYTHONPYCACHEPREFIX=$(call q,$(RUNNER_CACHE)/pycache) PYTHONDONTWRITEBYTECODE=
make_environment = @test -e $(call q,$(1)/.ready) || { $(call q,$(PYTHON)) -m venv $(call q,$(1)) && \
	$(call q,$(1)/bin/pip) install --quiet $(if $(INDEX_URL),--index-url $(call q,$(INDEX_URL))) -r $(2) && \
	touch $(call q,$(1)/.ready); }
KIT_ENVIRONMENT := $(call environment,kit,requirements.txt)
VENV := $(call environment,venv,requirements.txt tests/requirements.txt)
DOCS := $(call environment,docs,docs/requirements.txt)
# Bytecode is kept, also where the machine's PYTHONDONTWRITEBYTECODE says otherwise: that is about
# files beside sources, and without these each of a thousand processes compiles all that it imports,
# Python's own library included.
IN_VENV := $(call in_environment,$(VENV))
IN_DOCS := $(call in_environment,$(DOCS))
CLUSTER := $(call q,$(PYTHON)) -m tests.cluster
WHEELS := $(if $(WHEELHOUSE),$(shell realpath -m -- $(call q,$(WHEELHOUSE))))
BUILD_OPTIONS = $(if $(BASE),--base $(call q,$(BASE))) $(if $(WHEELHOUSE),--wheelhouse $(call q,$(WHEELS))) \
	$(if $(INDEX_URL),--index-url $(call q,$(INDEX_URL))) $(if $(PACK_LEVEL),--pack-level $(call q,$(PACK_LEVEL)))
# Root builds, pulls and publishes as the test cluster's user, in its toolbox and on its scratch.
ifeq ($(shell id -u),0)
KIT := $(CLUSTER) runner $(if $(WHEELHOUSE),--bind $(call q,$(WHEELS))) --
KIT_READY :=
IMAGES_FOLDER := $(RUNNER_CACHE)/cluster/scratch/ada/images
else
KIT := $(call in_environment,$(KIT_ENVIRONMENT)) python -m runners
KIT_READY := kit-environment
IMAGES_FOLDER := images/ in RUNNER_SCRATCH, SCRATCH, /scratch/$(USER) or the cache, whichever is set or there first
endif
DEMO := runner launch --image horovod_cpu.sif --nodes 2 --cpus-per-task 1 --controller gloo --follow torch_mnist
NODES ?= 2
IMAGE ?= horovod_gpu.sif
# The options of build-cpu, build-gpu and build-gpu13; `make help` prints what stands after `##`.
## BASE=IMAGE        with build-*: base image of a registry, such as debian:12-slim, where there is no mmdebstrap
## WHEELHOUSE=DIR    with build-*: install Python packages from this folder only
## INDEX_URL=URL     with build-*: package index to use
## PACK_LEVEL=LEVEL  with build-*: zstd level, 1 to 22; 6 packs fast, 19 is smallest
## PYTHON=PROGRAM    Python to use, 3.9 or newer (python3)
## RUNNER_CACHE=DIR  where environments, wheels and what builds keep go
BASE ?=
WHEELHOUSE ?=
INDEX_URL ?=
PACK_LEVEL ?=
# Of the tests on real clusters: tests/real/lanes.py has those that are `first`.
LANE := first
FIRST_ALONE = Lint and the fast tests passed. Not run: the tests on a real cluster, which need root on Debian or Ubuntu.
# Tests that are killed leave clusters beside the first one.
END_CLUSTERS := for folder in $(call q,$(RUNNER_CACHE))/cluster*; do $(CLUSTER) --state "$$folder" down; done; \
	rm -rf --one-file-system $(call q,$(RUNNER_CACHE))/cluster-beside-*

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' Makefile
	@echo; sed -n 's/^## /  /p' Makefile
	@echo; printf '  Images go to: %s\n' $(call q,$(IMAGES_FOLDER))

.PHONY: demo demo-cluster demo-here
demo: ## train on two nodes of a test cluster; where there can be none, two ranks on this machine
	@if $(CLUSTER) possible; then $(MAKE) --no-print-directory demo-cluster; \
	else $(MAKE) --no-print-directory demo-here; fi
demo-here: test-environment ## two ranks on this machine, without root, Slurm and Apptainer
	$(IN_VENV) python -m tests.demo_here
demo-cluster: have-cpu cluster-up ## pull or build the CPU image, start a cluster, train on two nodes with Gloo and MPI
	$(CLUSTER) exec -- $(DEMO)
	$(CLUSTER) exec -- runner launch --image horovod_cpu.sif --nodes 2 --cpus-per-task 1 --controller mpi --follow tf_mnist
	@echo "The cluster is up: make cluster-shell. To end it: make cluster-down."

.PHONY: have-cpu
have-cpu: $(KIT_READY) ## pull the CPU image where a source of prebuilt ones is set and has it, else build it
	$(KIT) pull cpu --or-build

.PHONY: build-cpu
build-cpu: $(KIT_READY) ## build the CPU image, without root; nothing when nothing changed
	$(KIT) build cpu $(BUILD_OPTIONS)

.PHONY: build-gpu
build-gpu: $(KIT_READY) ## build the GPU image, without root and without a GPU
	$(KIT) build gpu $(BUILD_OPTIONS)
.PHONY: build-gpu13
build-gpu13: $(KIT_READY) ## the same with CUDA 13: driver 580 and newer, no TensorFlow
	$(KIT) build gpu13 $(BUILD_OPTIONS)

.PHONY: test-gpu bench-gpu
test-gpu: test-environment ## prove IMAGE (a .sif or an environment) on this machine's GPUs: a report of one page
	$(IN_VENV) python -m tests.gpu --image $(call q,$(IMAGE))
bench-gpu: test-environment ## the trainers' speed with IMAGE on one GPU, beside scripts tuned by hand
	$(IN_VENV) python -m tests.gpu --image $(call q,$(IMAGE)) --speed

.PHONY: lock
lock: ## renew the locks of the images' packages
	$(call q,$(PYTHON)) -m containers.lock

.PHONY: cluster-up cluster-down cluster-status cluster-shell
cluster-up: ## start the test cluster (NODES=2)
	$(CLUSTER) up --nodes $(call q,$(NODES))
cluster-down: ## end the test cluster
	$(CLUSTER) down
cluster-status: ## show the test cluster
	$(CLUSTER) status
cluster-shell: ## a shell on the cluster's login node
	$(CLUSTER) shell

.PHONY: test test-first test-real test-all
test: lint unit test-first ## lint, the fast tests, and one test of each mechanism on a real cluster: 4 minutes
test-first: # the last of these, where there can be a cluster
	@if $(CLUSTER) possible; then $(MAKE) --no-print-directory real; else echo "$(FIRST_ALONE)"; fi
test-real: LANE := not slow and not first
test-real: real ## the other tests on real clusters but for the slow ones
test-all: LANE := first or not first
test-all: lint unit real ## lint, the fast tests, and all on real clusters, the slow ones too; those above 20 s are listed last

.PHONY: lint
lint: test-environment ## ruff, mypy --strict, and the direction of imports
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) mypy
	$(IN_VENV) lint-imports --no-cache

.PHONY: unit
unit: test-environment ## the fast tests, with those of addons/, three at a time on two cores: some of them wait
	$(IN_VENV) python -m pytest -q -n 3 tests/unit addons

.PHONY: real
real: test-environment cluster-possible build-cpu # two files at a time; three that fail run again
	trap $(call q,$(END_CLUSTERS)) EXIT; \
	$(CLUSTER) up --nodes 2; \
	$(IN_VENV) python -m tests.real -m $(call q,$(LANE))

.PHONY: cluster-possible
cluster-possible:
	@$(CLUSTER) possible || { echo "The tests on real clusters need root on Debian or Ubuntu." >&2; exit 3; }

.PHONY: test-cluster
test-cluster: test-environment build-cpu ## the tests of the test cluster itself: after a change of tests/cluster
	trap $(call q,$(END_CLUSTERS)) EXIT; \
	$(CLUSTER) up --nodes 2; \
	$(IN_VENV) python -m pytest -v tests/of_cluster

.PHONY: bench
bench: test-environment build-cpu cluster-up ## measure, as ratios within one run
	$(IN_VENV) python -m tests.bench

.PHONY: bench-train
bench-train: test-environment build-cpu cluster-up ## measure training: Horovod over Gloo and MPI beside DDP, and what tunes it
	$(IN_VENV) python -m tests.bench.train

.PHONY: test-matrix
test-matrix: test-environment build-cpu ## plan against reality, 216 cells on three Slurms; writes tests/matrix/RESULTS.md
	rm -rf build/matrix
	$(IN_VENV) python -m tests.matrix

.PHONY: test-faults
test-faults: test-environment build-cpu ## strike jobs and clients on a real cluster; writes tests/faults/RESULTS.md
	$(IN_VENV) python -m tests.faults

.PHONY: clean
clean: cluster-down ## end the cluster; remove the build and test leftovers of this checkout
	rm -rf build .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.PHONY: kit-environment test-environment docs-environment
kit-environment:
	$(call make_environment,$(KIT_ENVIRONMENT),requirements.txt)
test-environment:
	$(call make_environment,$(VENV),tests/requirements.txt)
docs-environment:
	$(call make_environment,$(DOCS),docs/requirements.txt)

.PHONY: reference
reference: test-environment ## renew docs/reference
	$(IN_VENV) python -m tests.reference

.PHONY: docs docs-demo
docs: docs-environment ## build the documentation as a site, in build/site
	rm -rf build/site
	$(IN_DOCS) sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky \
		-c docs -d build/doctrees . build/site
docs-demo: docs-environment build-cpu cluster-up ## record the demo again, docs/demo/demo.svg
	$(IN_DOCS) python -m tests.demo docs/demo/demo.svg $(DEMO)


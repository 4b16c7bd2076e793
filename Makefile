# Two commands do everything on a fresh machine: `make demo` and `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# Slow things live outside the checkout, each under a key made of its inputs. Not exported: an
# ordinary user's builds belong on scratch unless RUNNER_CACHE was really set.
RUNNER_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/horovod-runner
VENV := $(RUNNER_CACHE)/venv-$(shell $(PYTHON) -V 2>&1 | cat - tests/requirements.txt | sha256sum | cut -c1-12)
# Bytecode is kept, also where the machine's PYTHONDONTWRITEBYTECODE says otherwise: that is about
# files beside sources, and without these each of a thousand processes compiles all that it imports,
# Python's own library included.
IN_VENV := PATH="$(VENV)/bin:$$PATH" PYTHONPYCACHEPREFIX="$(RUNNER_CACHE)/pycache" PYTHONDONTWRITEBYTECODE=
DOCS := $(RUNNER_CACHE)/docs-$(shell $(PYTHON) -V 2>&1 | cat - docs/requirements.txt | sha256sum | cut -c1-12)
IN_DOCS := PATH="$(DOCS)/bin:$$PATH" PYTHONPYCACHEPREFIX="$(RUNNER_CACHE)/pycache" PYTHONDONTWRITEBYTECODE=
CLUSTER := $(PYTHON) -m tests.cluster
# Root builds, pulls and publishes as the test cluster's user, in its toolbox and on its scratch.
ifeq ($(shell id -u),0)
KIT := $(CLUSTER) runner --
else
KIT := $(IN_VENV) python -m runners
endif
DEMO := runner launch --image horovod_cpu.sif --nodes 2 --cpus-per-task 1 --controller gloo --follow torch_mnist
NODES ?= 2
IMAGE ?= horovod_gpu.sif
# Of the tests on real clusters: tests/real/lanes.py has those that are `first`.
LANE := first
FIRST_ALONE = Lint and the fast tests passed. Not run: the tests on a real cluster, which need root on Debian or Ubuntu.
# Tests that are killed leave clusters beside the first one.
END_CLUSTERS := for folder in $(RUNNER_CACHE)/cluster*; do $(CLUSTER) --state "$$folder" down; done; \
	rm -rf --one-file-system $(RUNNER_CACHE)/cluster-beside-*

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo demo-cluster demo-here
demo: ## train on two nodes of a test cluster; where there can be none, two ranks on this machine
	@if $(CLUSTER) possible; then $(MAKE) --no-print-directory demo-cluster; \
	else $(MAKE) --no-print-directory demo-here; fi
demo-here: $(VENV)/.ready ## two ranks on this machine, without root, Slurm and Apptainer
	$(IN_VENV) python -m tests.demo_here
demo-cluster: have-cpu cluster-up ## pull or build the CPU image, start a cluster, train on two nodes with Gloo and MPI
	$(CLUSTER) exec -- $(DEMO)
	$(CLUSTER) exec -- runner launch --image horovod_cpu.sif --nodes 2 --cpus-per-task 1 --controller mpi --follow tf_mnist
	@echo "The cluster is up: make cluster-shell. To end it: make cluster-down."

.PHONY: have-cpu
have-cpu: $(VENV)/.ready ## pull the CPU image where a source of prebuilt ones is set and has it, else build it
	$(KIT) pull cpu --or-build

.PHONY: build-cpu
build-cpu: $(VENV)/.ready ## build the CPU image, without root; nothing when nothing changed
	$(KIT) build cpu

.PHONY: build-gpu
build-gpu: $(VENV)/.ready ## build the GPU image, without root and without a GPU
	$(KIT) build gpu
.PHONY: build-gpu13
build-gpu13: $(VENV)/.ready ## the same with CUDA 13: driver 580 and newer, no TensorFlow
	$(KIT) build gpu13

.PHONY: test-gpu bench-gpu
test-gpu: $(VENV)/.ready ## prove IMAGE (a .sif or an environment) on this machine's GPUs: a report of one page
	$(IN_VENV) python -m tests.gpu --image "$(IMAGE)"
bench-gpu: $(VENV)/.ready ## the trainers' speed with IMAGE on one GPU, beside scripts tuned by hand
	$(IN_VENV) python -m tests.gpu --image "$(IMAGE)" --speed

.PHONY: lock
lock: ## renew the locks of the images' packages
	$(PYTHON) -m containers.lock

.PHONY: cluster-up cluster-down cluster-status cluster-shell
cluster-up: ## start the test cluster (NODES=2)
	$(CLUSTER) up --nodes $(NODES)
cluster-down: ## end the test cluster
	$(CLUSTER) down
cluster-status: ## show the test cluster
	$(CLUSTER) status
cluster-shell: ## a shell on the cluster's login node
	$(CLUSTER) shell

.PHONY: test test-first test-real test-all
test: lint unit test-first ## lint, the fast tests, and one test of each mechanism on a real cluster: 10 minutes
test-first: # the last of these, where there can be a cluster
	@if $(CLUSTER) possible; then $(MAKE) --no-print-directory real; else echo "$(FIRST_ALONE)"; fi
test-real: LANE := not slow and not first
test-real: real ## the other tests on real clusters but for the slow ones
test-all: LANE := first or not first
test-all: lint unit real ## lint, the fast tests, and all on real clusters: those marked slow say their minutes

.PHONY: lint
lint: $(VENV)/.ready ## ruff, mypy --strict, and the direction of imports
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) mypy
	$(IN_VENV) lint-imports --no-cache

.PHONY: unit
unit: $(VENV)/.ready ## the fast tests, three at a time on two cores: some of them wait
	$(IN_VENV) python -m pytest -q -n 3 tests/unit

.PHONY: real
real: $(VENV)/.ready cluster-possible build-cpu # two files at a time; three that fail run again
	trap '$(END_CLUSTERS)' EXIT; \
	$(CLUSTER) up --nodes 2; \
	$(IN_VENV) python -m tests.real -m '$(LANE)'

.PHONY: cluster-possible
cluster-possible:
	@$(CLUSTER) possible || { echo "The tests on real clusters need root on Debian or Ubuntu." >&2; exit 3; }

.PHONY: test-cluster
test-cluster: $(VENV)/.ready build-cpu ## the tests of the test cluster itself: after a change of tests/cluster
	trap '$(END_CLUSTERS)' EXIT; \
	$(CLUSTER) up --nodes 2; \
	$(IN_VENV) python -m pytest -v tests/of_cluster

.PHONY: bench
bench: $(VENV)/.ready build-cpu cluster-up ## measure, as ratios within one run
	$(IN_VENV) python -m tests.bench

.PHONY: bench-train
bench-train: $(VENV)/.ready build-cpu cluster-up ## measure training: Horovod over Gloo and MPI beside DDP, and what tunes it
	$(IN_VENV) python -m tests.bench.train

.PHONY: test-matrix
test-matrix: $(VENV)/.ready build-cpu ## plan against reality, 216 cells on three Slurms; writes tests/matrix/RESULTS.md
	rm -rf build/matrix
	$(IN_VENV) python -m tests.matrix

.PHONY: test-faults
test-faults: $(VENV)/.ready build-cpu ## strike jobs and clients on a real cluster; writes tests/faults/RESULTS.md
	$(IN_VENV) python -m tests.faults

.PHONY: clean
clean: cluster-down ## end the cluster; remove the build and test leftovers of this checkout
	rm -rf build .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/.ready:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -r tests/requirements.txt
	touch $@

.PHONY: reference
reference: $(VENV)/.ready ## renew docs/reference
	$(IN_VENV) python -m tests.reference

IMAGES ?= cpu gpu
.PHONY: release package
release: $(IMAGES:%=build-%) ## publish IMAGES="cpu gpu" with a signed list: TO=oras://HOST/FOLDER KEY=ada@example.org
	$(KIT) release $(IMAGES:%=horovod_%.sif) --to $(TO) --key $(KEY)
package: $(VENV)/.ready ## the Python package, with TO= and PUBLIC_KEY=FILE of its release in it, in build/package/dist
	rm -rf build/package; mkdir -p build/package
	git archive HEAD | tar -x -C build/package
	printf '\n[project.urls]\nImages = "%s"\n' '$(TO)' >> build/package/pyproject.toml
	cp '$(PUBLIC_KEY)' build/package/runners/images/release/release-key.asc
	$(VENV)/bin/pip wheel --quiet --no-deps --wheel-dir build/package/dist build/package

.PHONY: docs docs-demo
docs: $(DOCS)/.ready ## build the documentation as a site, in build/site
	rm -rf build/site
	$(IN_DOCS) sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --nitpicky \
		-c docs -d build/doctrees . build/site
docs-demo: $(DOCS)/.ready build-cpu cluster-up ## record the demo again, docs/demo/demo.svg
	$(IN_DOCS) python -m tests.demo docs/demo/demo.svg $(DEMO)

$(DOCS)/.ready:
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet -r docs/requirements.txt
	touch $@

# Everything a contributor runs. Needs Python 3.11 or newer and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Where plain torch brings a graphics card's libraries, name a build for the processor: make test-torch TORCH='torch==2.13.0+cpu --extra-index-url ...'
TORCH_VENV := build/torch-venv
TORCH ?= torch==2.13.0

# Where bytecode is not kept, each of the hundreds of processes that the tests start compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

BENCH_VENV := build/bench-venv
JUDGE_VENV := build/judge-venv

# What runs side by side is shown one after the other, by a make that can.
TOGETHER := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

.DEFAULT_GOAL := help
.PHONY: help demo test test-torch power replay sweep matrix model planted kills fuzz golden soak fleet explore histories mutants judge profile bench bench-checkpoint bench-workers lint lint-style lint-types lint-pyright lint-cases lint-imports format docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.demo ## crash a worker for real, then recover its run
	$(BIN)/recover demo

test: $(VENV)/.test ## every test, on memory, SQLite and PostgreSQL
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not explore and not histories and not torch and not power and not typing'

test-torch: $(TORCH_VENV)/.test ## checkpoints of torch jobs, on 2 and 4 processes; installs torch into an environment of its own
	$(TORCH_VENV)/bin/python -m pytest -q -m torch tests/torch

power: $(VENV)/.test ## lost power and refused calls: every legal state of the disk after each system call; needs FUSE
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --timeout 3600 -m power tests/power

replay: $(VENV)/.test ## every scenario on memory, SQLite and PostgreSQL, each in both colours
	$(BIN)/python -m tests.scenarios
	RECOVERY_SWEEP=full $(BIN)/python -m pytest -q tests/scenarios/test_playing.py -k both_colours

sweep: $(VENV)/.test ## scenarios and orders with a crash at every place, not at a sample of them
	RECOVERY_SWEEP=full $(BIN)/python -m pytest -q --timeout 3600 tests/scenarios/test_sweep.py tests/crash/test_orders.py tests/crash/test_contradictions.py tests/crash/test_sagas.py

matrix: $(VENV)/.test ## every contract under every fault at every crash point, not a sample of them
	RECOVERY_MATRIX=$${RECOVERY_MATRIX:-full} $(BIN)/python -m pytest -q -s --timeout 3600 tests/scenarios/test_matrix.py

model: $(VENV)/.test ## the model checks in their full bound, with what they covered: some minutes
	$(BIN)/python -m tests.model
	$(BIN)/python -m tests.model.claims

planted: $(VENV)/.test ## bugs planted into the engine, each found by the explorer without a hint: some minutes. REWRITE=1 writes the page's table
	$(BIN)/python -m pytest -q --timeout 3600 $(if $(REWRITE),--rewrite,-n 2) tests/explorer/every_bug.py

kills: $(VENV)/.test ## runs, runs with children, orders, and the agent of the examples, killed at every passage of every crash point, and a hundred races of orders: some quarter of an hour. EVERY=4: each fourth
	EVERY=$${EVERY:-1} $(BIN)/python -m pytest -q --timeout 1800 -n 2 tests/crash/every_passage.py tests/crash/test_agent.py tests/crash/test_crowd.py tests/crash/test_points.py tests/crash/test_orders.py::test_an_order_about_a_run_is_there_once_and_whole tests/crash/test_contradictions.py::test_a_contradiction_is_recorded_once_wherever_its_recorder_was_killed tests/races/many_races.py

fuzz: $(VENV)/.test ## spoilt checkpoints, and spoilt values of journals, for a minute each: none may crash, hang or be taken for a whole one
	$(BIN)/python -m tests.fuzz --seconds $${SECONDS_OF_FUZZ:-60}
	$(BIN)/python -m tests.fuzz.values

golden: $(VENV)/.test ## write the journals of the newest directory of tests/golden, once: with each release
	$(BIN)/python -m tests.golden

soak: $(VENV)/.test ## random plays with real processes, services and servers killed: 300, or PLAYS=N, or MINUTES=M; SEED=N from that one on
	$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES),--plays $(or $(PLAYS),300)) $(if $(SEED),--seed $(SEED))

fleet: $(VENV)/.test ## eight workers drain 10,000 runs on each database, while they and the server are killed: some minutes. RUNS=N, SEED=N, DATABASE=sqlite
	$(BIN)/python -m tests.fleet --runs $(or $(RUNS),10000) --seed $(or $(SEED),0) $(if $(DATABASE),--database $(DATABASE)) $(if $(SECONDS_MAX),--seconds $(SECONDS_MAX))

explore: $(VENV)/.test ## every history of the canonical workflow, strict and riding, with two faults and two recoverers, then the explorer's own tests
	$(BIN)/recover explore scenarios/canonical.yaml $(foreach store,$(STORES),--store $(store))
	$(BIN)/recover explore scenarios/canonical-riding.yaml $(foreach store,$(STORES),--store $(store))
	$(BIN)/python -m pytest -q -n 2 -m explore tests/explorer

histories: $(VENV)/.test ## random workflows with random kills against plain Python: 300 histories, or HISTORIES=N; SEED=N draws others
	HISTORIES=$(or $(HISTORIES),300) $(BIN)/python -m pytest -q -s -m histories --hypothesis-seed=$(or $(SEED),0) tests/model/workflows

mutants: $(VENV)/.test ## break weigh and judge in every way we know, and see which tests notice: some minutes
	$(BIN)/python -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE))

bench-workers: $(VENV)/.test ## what workers cost with 100,000 settled and 1,000 open runs
	$(VENV)/bin/python -m tests.benchmarks.open_runs

profile: $(VENV)/.test ## where each microsecond of a step goes, by stage
	$(BIN)/python -m tests.benchmarks.stages $(if $(PAGE),--page $(PAGE))

bench: $(VENV)/.test ## what a step costs beside bare commits and the peers: a quarter of an hour; each peer in an environment of its own. ONLY=one: a part
	$(BIN)/python -m tests.benchmarks.engine $(if $(ONLY),--only $(ONLY)) $(if $(ALONE),--alone) $(if $(PAGE),--page $(PAGE))

bench-checkpoint: $(BENCH_VENV)/.bench ## what a save and a load cost beside the peers and the bare disk; installs the peers into an environment of its own
	$(BENCH_VENV)/bin/python -m tests.benchmarks.checkpoint $(if $(PAGE),--page $(PAGE))

judge: $(VENV)/.test $(if $(ONLY),,$(JUDGE_VENV)/.peers) ## recovery and its peers killed for real, the effects counted outside; rewrites the comparison page. ONLY=recovery: itself alone
	$(BIN)/python -m tests.judge $(if $(ONLY),--only $(ONLY),--peers $(JUDGE_VENV)/bin/python --page)

lint: $(VENV)/.test ## ruff, mypy, pyright, right and wrong uses of the public types, import contracts
	@$(MAKE) --no-print-directory --jobs=2 $(TOGETHER) lint-types lint-pyright lint-cases lint-style lint-imports

lint-style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

lint-types:
	$(BIN)/mypy

lint-pyright:
	$(BIN)/pyright

lint-cases:
	$(BIN)/python -m pytest -q -m typing tests/typing

lint-imports:
	$(BIN)/lint-imports

format: $(VENV)/.test ## rewrite the code the way lint wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.test ## regenerate pages from code, and the output that pages show
	$(BIN)/python docs/generate.py
	$(BIN)/python -m tests.docs.runner --rewrite

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find recovery tests migrations docs -type d -name __pycache__ -prune -exec rm -rf {} +

# Makes of one checkout take turns at this, and each looks again in its turn.
define install
@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found. Install Python 3.11 or newer, or say: make PYTHON=/path/to/python3.11" >&2; exit 1; }
@$(PYTHON) tests/environment.py $(1)
endef

# Stamps: an install is repeated only when pyproject.toml has changed. The test extra contains the demo's.
$(VENV)/.demo: pyproject.toml
	$(call install,$(VENV) --stamp .demo -- -e '.[demo]')

$(VENV)/.test: pyproject.toml
	$(call install,$(VENV) --stamp .demo --stamp .test -- -e '.[test]')

$(TORCH_VENV)/.test: pyproject.toml
	$(call install,$(TORCH_VENV) --stamp .test -- -e '.[test]' $(TORCH))

# A peer that cannot be installed here is missing, and what is measured says so.
$(BENCH_VENV)/.bench: pyproject.toml tests/benchmarks/peers.txt
	$(call install,$(BENCH_VENV) --stamp .bench --behind tests/benchmarks/peers.txt --each-of tests/benchmarks/peers.txt -- -e '.[checkpoint]')

$(JUDGE_VENV)/.peers: tests/judge/peers.txt
	$(call install,$(JUDGE_VENV) --stamp .peers --behind tests/judge/peers.txt --each-of tests/judge/peers.txt)

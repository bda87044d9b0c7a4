# `make demo` and `make test` need nothing but python3 and make: they set up .venv themselves. The inspector's page is tested
# in Chromium, which root installs; other users have it installed for them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# One thread for each process: small networks are slower with more.
export OMP_NUM_THREADS := 1

DEMO := runs/demo
DEMO_STEPS := 60000
DEMO_RUNS := $(foreach seed,0 1,$(foreach weight,0 0.4,$(DEMO)/weight-$(weight)/seed-$(seed)))

.PHONY: demo test test-all check browser screenshots bench clean $(DEMO_RUNS)

demo: $(STAMP)  ## train DQN and EVA on the maze, two runs at a time, and compare them
	@$(MAKE) --no-print-directory -j2 $(DEMO_RUNS)
	@$(BIN)/eva report $(DEMO)

$(DEMO_RUNS): $(STAMP)
	@TTY_COMPATIBLE=0 $(BIN)/eva train maze-1-coin --device cpu --steps $(DEMO_STEPS) --out $@ \
	  --weight $(patsubst weight-%,%,$(notdir $(patsubst %/,%,$(dir $@)))) --seed $(patsubst seed-%,%,$(notdir $@))

test: check browser  ## the fast suite
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: check browser  ## the fast and the slow suite
	$(BIN)/python -m pytest -n 2

check: $(STAMP)  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

browser:  ## what the inspector's page is tested in
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || { test "$$(id -u)" = 0 && apt-get update && apt-get install -y chromium; } \
	  || echo "no browser: the tests of the inspector's page will fail; install chromium"

MAZE := $(DEMO)/weight-0.4/seed-0
PONG := runs/pong/weight-0.4/seed-0

screenshots: $(STAMP) browser  ## the inspector's pictures in docs/images/, from finished runs: MAZE=RUN PONG=RUN
	$(BIN)/python -m docs.generate_screenshots "$(MAZE)" "$(PONG)"

bench: $(STAMP)  ## measure speed, and a peer's in the same run
	$(BIN)/python -m benchmarks.step_parts
	$(BIN)/python -m benchmarks.maze_peers
	$(BIN)/python -m benchmarks.planner_cost
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.checkpoints
	$(BIN)/python -m benchmarks.priorities
	$(BIN)/python -m benchmarks.emulators
	$(BIN)/python -m benchmarks.linear
	$(BIN)/python -m benchmarks.frames
	$(BIN)/python -m benchmarks.atari_parts
	$(BIN)/python -m benchmarks.atari_peers
	$(BIN)/python -m benchmarks.run_costs
	$(BIN)/python -m benchmarks.sb3_cost

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

# Debian splits venv off python3: where that is missing and we may, install it.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[atari,box2d,dev,ray,sb3,tb]"
	@touch $@

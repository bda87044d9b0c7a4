# `make demo` and `make test` need only python3 and make: they create .venv themselves. The tests of the inspector need
# Chromium or Chrome; `make browser` installs Chromium if you are root on Debian or Ubuntu.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
STAMP := $(VENV)/.installed-extras
EXTRAS := atari,box2d,dev,docs,export,minatar,ray,sb3,tb,trackio,video,wandb

# One thread per process: more threads slow down small networks.
export OMP_NUM_THREADS := 1

DEMO := runs/demo
DEMO_STEPS := 60000
DEMO_RUNS := $(foreach seed,0 1,$(foreach weight,0 0.4,$(DEMO)/weight-$(weight)/seed-$(seed)))

.PHONY: demo test test-all check docs fuzz browser dist screenshots bench help clean $(DEMO_RUNS)

demo: $(INSTALLED)  ## train DQN and EVA on the maze and compare them
	@$(MAKE) --no-print-directory -j2 $(DEMO_RUNS)
	@$(BIN)/eva report $(DEMO)

$(DEMO_RUNS): $(INSTALLED)
	@TTY_COMPATIBLE=0 $(BIN)/eva train maze-1-coin --device cpu --steps $(DEMO_STEPS) --out $@ \
	  --weight $(patsubst weight-%,%,$(notdir $(patsubst %/,%,$(dir $@)))) --seed $(patsubst seed-%,%,$(notdir $@))

test: check browser  ## run the checks and the fast tests
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: check browser  ## run the checks and all tests, fast and slow
	$(BIN)/python -m pytest -n 2

check: $(STAMP)  ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(STAMP)  ## build the documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html"

FUZZ_SECONDS := 1200
FUZZ_SEED := 0

fuzz: $(STAMP)  ## damage and kill runs for FUZZ_SECONDS, and fail if that is not noticed: FUZZ_SEED=N
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

browser:  ## install Chromium, which the tests of the inspector need
	@command -v chromium || command -v chromium-browser || command -v google-chrome \
	  || test -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
	  || { test "$$(id -u)" = 0 && apt-get update && apt-get install -y chromium; } \
	  || echo "no browser found: the tests of the inspector will fail until you install chromium"

dist: $(STAMP)  ## build the source distribution and the wheel in dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

MAZE := $(DEMO)/weight-0.4/seed-0
PONG := runs/pong/weight-0.4/seed-0

screenshots: $(STAMP) browser  ## take the screenshots in docs/images/ of two finished runs: MAZE=RUN PONG=RUN
	$(BIN)/python -m docs.generate_screenshots "$(MAZE)" "$(PONG)"

bench: $(STAMP)  ## measure speed, compared with other packages
	$(BIN)/python -m benchmarks.step_parts
	$(BIN)/python -m benchmarks.maze_peers
	$(BIN)/python -m benchmarks.planner_cost
	$(BIN)/python -m benchmarks.choice_speeds
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

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' Makefile

clean:  ## delete the virtual environment, caches, built packages and the site
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist site

# Install an argument of pip, show one line for each download of a megabyte or more, and touch the target on success.
define install
	@rm -f $@
	@{ $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off -c constraints.txt -e "$(1)" \
	  && touch $@; } | awk '/(Downloading|Using cached) .*[MG]B\)/ {print; fflush()} \
	    /^Installing collected/ {print "  unpacking " gsub(",", "") + 1 " packages"; fflush()}'
	@test -e $@
endef

# Debian packages venv separately from python3: install it if it is missing and we are root.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV) || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	@echo "Installing eva and the packages that it requires in $(VENV):"
	$(call install,.)

$(STAMP): $(INSTALLED)
	@echo "Installing the extras $(EXTRAS) in $(VENV):"
	$(call install,.[$(EXTRAS)])

PY ?= .venv/bin/python
BIN = $(dir $(PY))

SETS = slurm containers torchrun terminal browser faults soak # see tests/sets.py

.PHONY: check lint types imports fast test test-all $(SETS) gpu bench docs pictures links

check: lint types imports fast  ## before every commit

lint:
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: links
	$(PY) -m basedpyright --pythonpath $(PY)

imports:
	$(BIN)lint-imports

fast:  ## the tests that start next to nothing
	$(PY) -m pytest -q tests/core tests/taskfile tests/attempts tests/logs tests/headless tests/contract tests/decks tests/test_*.py

test:  ## all tests but those of the sets: five minutes on two cores
	$(PY) -m pytest

test-all: test  ## all tests but those that need a GPU; of the sets, those that wait beside those that compute
	$(PY) -m pytest -m "$(shell echo $(filter-out soak, $(SETS)) | sed 's/ / or /g')"
	$(PY) -m pytest -m soak

$(filter-out soak, $(SETS)):  ## the tests of one set
	$(PY) -m pytest -m $@

soak:  ## that set, then as many simulated worlds as 20 minutes give, each with a seed of its own
	$(PY) -m pytest -m $@
	$(PY) -m tests.sim --first $$(date +%s) --minutes 20

gpu:  ## on a box with an NVIDIA GPU, eight minutes at most: what it saw goes to docs/dev/gpus-seen/
	$(PY) -m pytest -m gpu --record; held=$$?; $(PY) docs/generate.py; exit $$held

bench:  ## one script per budget; each prints a line a case: ours, peer, ratio
	@for script in $$(grep -l __main__ bench/*.py); do echo "# $$script"; $(PY) $$script || exit 1; done

docs:  ## what is generated in docs/, then the site in build/site; any warning is an error (with -q mkdocs would count none)
	$(PY) -m gpudeck.engine.taskfile.reference
	$(PY) docs/generate.py
	$(PY) -c "import mkdocs" 2>/dev/null || $(PY) -m pip install -q -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --clean

pictures:  ## docs/pictures/*.svg, taken of the app over a deck that really runs: half a minute
	$(PY) -m docs.pictures

# The checkout is the package: type checkers and editors find `gpudeck.…` for the tests here.
links: .types/gpudeck
.types/gpudeck:
	mkdir -p $@
	ln -sfn ../../cli ../../distributed ../../engine ../../tui ../../__init__.py ../../__main__.py $@/

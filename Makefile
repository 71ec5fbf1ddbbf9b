PY ?= .venv/bin/python
BIN = $(dir $(PY))

.PHONY: check lint types imports fast test slurm bench docs pictures links

check: lint types imports fast  ## before every commit: about a minute

lint:
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: links
	$(PY) -m basedpyright --pythonpath $(PY)

imports:
	$(BIN)lint-imports

fast:  ## the tests that are not marked slow
	$(PY) -m pytest -q -m "not slow"

test:
	$(PY) -m pytest

slurm:  ## the tests on a real Slurm, which they start themselves
	$(PY) -m pytest tests/slurm

bench:  ## one script per budget; each prints a line a case: ours, peer, ratio
	@for script in $$(grep -l __main__ bench/*.py); do echo "# $$script"; $(PY) $$script || exit 1; done

docs:  ## what is generated in docs/, then the site in build/site; any warning is an error (with -q mkdocs would count none)
	$(PY) -m gpudeck.engine.taskfile.reference
	$(PY) docs/generate.py
	$(PY) -c "import mkdocs" 2>/dev/null || $(PY) -m pip install -q -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --clean

pictures:  ## docs/pictures/*.svg, taken of the app over a deck that really runs: half a minute
	$(PY) docs/pictures.py

# The checkout is the package: type checkers and editors find `gpudeck.…` for the tests here.
links: .types/gpudeck
.types/gpudeck:
	mkdir -p $@
	ln -sfn ../../distributed ../../engine ../../tui ../../__init__.py ../../__main__.py $@/

# Each target does all of its set-up on a fresh machine: Python 3.11 to 3.13 with venv is all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check docs wheel bench results clean

demo: $(STAMP)
	$(BIN)/python -m kriss.demo out/demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The documentation as a site in out/site; a link or an anchor that leads nowhere is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# The built wheel alone, without torch, links with a linker that was built here.
wheel: $(STAMP)
	$(BIN)/python -m tests.wheel

# Ontologies need nothing; mining needs KRISS_DATA, a folder with text/ and ontology/ as in docs/benchmarks.md;
# training and linking use what `make demo` left. benchmarks/index_scale.py, which fills 16 GB of disk, is run by hand.
bench: $(STAMP)
	$(BIN)/python benchmarks/ontology_scale.py
	$(BIN)/python benchmarks/mining_scale.py
	test -z "$$KRISS_DATA" || $(BIN)/python benchmarks/mining_speed.py
	test -z "$$KRISS_DATA" || test ! -d out/demo/linker || $(BIN)/python benchmarks/link_speed.py out/demo/linker out/demo/encoder
	test ! -d out/demo/mentions || $(BIN)/python benchmarks/train_speed.py out/demo/hpo out/demo/mentions

# The tables of docs/results.md; hours on two cores, stage by stage, and it goes on where it was stopped.
results: $(STAMP)
	test -n "$$KRISS_DATA" || { echo "set KRISS_DATA to the data folder; docs/reference/datasets.md says what is in it" >&2; exit 2; }
	$(BIN)/kriss run recipes/results.toml --out out/results
	$(BIN)/python benchmarks/results_table.py out/results > out/results/tables.md

clean:
	rm -rf $(VENV) out

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

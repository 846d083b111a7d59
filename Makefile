# make demo   a venv, the package, the shipped sample page parsed: shows where the Markdown is
# make test   a venv, the package with its dev extra, ruff, mypy and all tests
# make lint   ruff and mypy only
# make clean  removes the venv and what runs wrote

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := $(shell find src -type f -not -name '*.pyc')
SAMPLE := src/gravityocr/samples/sample_page.png
DEMO_OUT := out/demo
DEMO_MARKDOWN := $(DEMO_OUT)/$(basename $(notdir $(SAMPLE)))/$(basename $(notdir $(SAMPLE))).md

.PHONY: demo test lint clean

demo: $(VENV)/.installed
	$(BIN)/gravityocr parse $(SAMPLE) -o $(DEMO_OUT)
	@echo
	@echo "The Markdown is in $(DEMO_MARKDOWN); its first lines:"
	@echo
	@head -n 24 $(DEMO_MARKDOWN)

test: lint
	$(BIN)/python -m pytest -q $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

# One venv serves both commands. A plain install copies the sources, an editable one links them: each stamp
# removes the other, so that neither command ever runs on what the other one left.
$(VENV)/.installed: pyproject.toml constraints.txt $(SOURCES) | $(VENV)/bin/python
	@echo "Installing gravityocr into $(VENV) (a few minutes the first time)"
	@rm -f $(VENV)/.installed-dev
	$(PIP_INSTALL) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing gravityocr[dev] into $(VENV) (a few minutes the first time)"
	@rm -f $(VENV)/.installed
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("gravityocr needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) out build dist

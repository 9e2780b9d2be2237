# Everything from a checkout with Python 3.11+ and make. `make help` lists what there is.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

RUN := $(VENV)/bin/python
# Written last: a folder without it is not finished.
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help:
	@echo "make demo    play the stories, then leave the dashboard at http://127.0.0.1:8000"
	@echo "make up      web, workers, beat; PostgreSQL and Valkey too, unless DATABASE_URL and REDIS_URL name some"
	@echo "make test    all tests (needs chromium)"
	@echo "make screenshots  a picture of every page: light, dark and on a phone, into FOLDER=screenshots"
	@echo "make lint    ruff, mypy, import-linter, djade"
	@echo "make bench   how fast it is on this machine, its pages too"
	@echo "make histories  N=2000 random histories of a run beside a model of it; SEED=... for the same again"
	@echo "make crash   something dies at every point of a call's life, cell by cell"
	@echo "make guards  takes each guard out in a copy and shows that its test goes red"
	@echo
	@echo "PYTHON=python3.12 names the interpreter, VENV=folder the virtual environment, ARGS='...' is handed on."

N ?= 2000
SEED ?=
.PHONY: histories
histories: $(INSTALLED)
	@HISTORIES=$(N) SEED=$(SEED) SAGABOARD_LOG_LEVEL=CRITICAL $(RUN) -m pytest -s tests/histories $(ARGS)

.PHONY: guards
guards: $(INSTALLED)
	@$(RUN) -m tests.guards $(ARGS)

.PHONY: crash
crash: $(INSTALLED)
	@$(RUN) -m tests.crash $(ARGS)

.PHONY: demo up bench
demo up: $(INSTALLED)
	@$(RUN) manage.py $@ $(ARGS)

bench: $(INSTALLED)
	@$(RUN) -m tests.bench $(ARGS)
	@$(RUN) -m tests.bench_pages $(ARGS)

.PHONY: test chromium
test: chromium $(INSTALLED)
	@$(RUN) -m pytest -n auto --dist loadscope --no-loadscope-reorder $(ARGS)

# Said before the long run, not in the middle of it. The tests find it the same way.
chromium:
	@command -v "$${SAGABOARD_CHROMIUM:-chromium}" >/dev/null || { \
		echo "The tests drive the pages in a browser, and there is no $${SAGABOARD_CHROMIUM:-chromium}:" >&2; \
		echo "apt-get install chromium, or name the program in SAGABOARD_CHROMIUM." >&2; exit 1; }

# Of every page, on a desk in light and dark and on a phone. The README's own are copied by hand: cp $(FOLDER)/readme-* static/screenshots/
FOLDER ?= screenshots
.PHONY: screenshots
screenshots: chromium $(INSTALLED)
	@SAGABOARD_SCREENSHOTS=$(FOLDER) $(RUN) -m pytest tests/browser/test_every_page.py $(ARGS)

.PHONY: lint
lint: $(INSTALLED)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(RUN) -m mypy
	@$(VENV)/bin/lint-imports
	@find . -name '*.html' -path '*/templates/*' -not -path './$(VENV)/*' -exec $(VENV)/bin/djade --check --target-version 5.2 {} +

$(INSTALLED): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "$(PYTHON) is missing or older than Python 3.11: name another, as in make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) can't make virtual environments: apt-get install python3-venv, or name another with PYTHON=" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

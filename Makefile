# Two commands do everything: `make run` and `make test`. Each sets up what it needs first.
VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
ROOMS  := schemas runtime bus edge services/browser-bridge services/node-gateway services/brain client node testing cli
SOURCE := $(foreach room,$(ROOMS),$(room)/hereabouts)
PYTHON ?= python3

.PHONY: run test check bench soak generate format lock clean

run: $(STAMP)
	@$(PY) -m hereabouts.cli demo $(ARGS)

test: $(STAMP)
	@$(PY) -m pytest -n 2 --dist loadfile tests $(ARGS)

check: $(STAMP) node_modules/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(SOURCE)
	$(VENV)/bin/lint-imports
	node_modules/.bin/tsc --project jsconfig.json
	$(PY) -m hereabouts.schemas.generate --check

bench: $(STAMP)
	@$(PY) -m bench.bus $(ARGS)
	@$(PY) -m bench.call $(ARGS)

generate: $(STAMP)
	$(PY) -m hereabouts.schemas.generate

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The lock is requirements.lock: every version with its hashes, and no registry's address.
lock:
	$(VENV)/bin/uv lock --upgrade
	$(VENV)/bin/uv export --quiet --all-packages --all-groups --no-emit-workspace --no-annotate --no-header --output-file requirements.lock

$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Hereabouts needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@if command -v uv >/dev/null; then ln -s "$$(command -v uv)" $@; else $(VENV)/bin/pip install --quiet --disable-pip-version-check uv; fi

$(STAMP): $(VENV)/bin/uv requirements.lock pyproject.toml $(foreach room,$(ROOMS),$(room)/pyproject.toml)
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/uv pip install --quiet --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/uv pip install --quiet --no-deps $(foreach room,$(ROOMS),-e $(room)) -e .
	@touch $@

node_modules/.installed: package.json package-lock.json
	npm ci --silent --no-audit --no-fund
	@touch $@

clean:
	rm -rf $(VENV) node_modules

.DEFAULT_GOAL := help
.PHONY: help setup book serve notebooks test colab canary clean
python := .venv/bin/python
# Without cached bytecode each of many Python processes takes seconds to import JAX.
unexport PYTHONDONTWRITEBYTECODE

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1	/p' Makefile

setup: ## make .venv with the pinned packages (PYTHON=/path/to/python chooses one)
	@sh tools/setup.sh

book: setup ## build the site into _build/html
	@$(python) tools/site.py build

serve: setup ## build the site and serve it on a free port (PORT=8000 chooses one)
	@$(python) tools/site.py serve $(if $(PORT),--port $(PORT))

notebooks: setup ## run the chapters that changed and export them to notebooks/
	@$(python) tools/notebooks.py build

test: setup ## run everything: style, unit, book and browser tests, notebooks
	@$(python) tools/run_tests.py

colab: setup ## run every notebook alone, with what Colab has installed
	@$(python) tools/colab.py

canary: setup ## run every notebook with the newest JAX on the newest Python
	@$(python) tools/canary.py

clean: ## remove what was built; environments (.venv*) stay
	@rm -rf _build build dist .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

#!/bin/sh
# Makes .venv with exactly the pinned packages; does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${PYTHON:-}" ] && [ -f .venv/book-state.json ] && [ -x .venv/bin/python ]; then
    python=.venv/bin/python
else
    python=$(sh tools/find_python.sh)
fi
exec "$python" tools/environment.py

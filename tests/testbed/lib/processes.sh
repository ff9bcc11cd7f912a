# shellcheck shell=bash disable=SC2034,SC2154
# Processes in control groups, and waiting for them. Sourced by ../testbed.

# cgroup_dir GROUP: its directory. With cgroup v1 the freezer hierarchy serves both
# to list a group's processes and to freeze them; with v2 there is only one hierarchy.
cgroup_dir() {
  if [[ -d /sys/fs/cgroup/freezer ]]; then
    echo "/sys/fs/cgroup/freezer/$CGROUP/$1"
  else
    echo "/sys/fs/cgroup/$CGROUP/$1"
  fi
}

# spawn GROUP NAME COMMAND...: start a process in a control group, with a log and its PID on record.
spawn() {
  local group name=$2 log=$RUN/log/$2.log
  group=$(cgroup_dir "$1")
  shift 2
  mkdir -p "$group"
  # shellcheck disable=SC2016
  setsid sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@" >>"$log" 2>&1 </dev/null &
  echo $! >"$RUN/pid/$name"
}

group_pids() { find "$(cgroup_dir "$1")" -name cgroup.procs -exec cat {} + 2>/dev/null || true; }

# kill_group GROUP: kill all that runs in a control group, and remove the group.
kill_group() {
  local pids tries dir
  find "$(cgroup_dir "$1")" -name freezer.state -exec sh -c 'echo THAWED >"$0"' {} \; \
    -o -name cgroup.freeze -exec sh -c 'echo 0 >"$0"' {} \; 2>/dev/null || true
  for ((tries = 0; tries < 200; tries++)); do
    pids=$(group_pids "$1")
    [[ -n $pids ]] || break
    # shellcheck disable=SC2086
    kill -KILL $pids 2>/dev/null || true
    sleep 0.05
  done
  for dir in /sys/fs/cgroup/*/"$CGROUP/$1" "/sys/fs/cgroup/$CGROUP/$1"; do
    [[ -d $dir ]] || continue
    for ((tries = 0; tries < 20; tries++)); do
      find "$dir" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
  done
}

freeze() { # GROUP true|false
  local dir
  dir=$(cgroup_dir "$1")
  if [[ -e $dir/freezer.state ]]; then
    if "$2"; then echo FROZEN >"$dir/freezer.state"; else echo THAWED >"$dir/freezer.state"; fi
  elif [[ -e $dir/cgroup.freeze ]]; then
    if "$2"; then echo 1 >"$dir/cgroup.freeze"; else echo 0 >"$dir/cgroup.freeze"; fi
  fi
}

# until_true SECONDS WHAT COMMAND...: wait until the command succeeds.
until_true() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "gave up waiting for $what (logs: $RUN/log)"
    sleep 0.1
  done
}


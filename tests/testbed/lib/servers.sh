# shellcheck shell=bash disable=SC2034,SC2154
# Servers of each line, to be run on this machine by tests, out of the same packages as the images. Sourced by ../testbed.

# line NAME: the folder below $SERVERS that an image's servers go to. 7.2 is Redict, 7.2-redis is Redis 7.0 (lib/images.sh).
SERVER_IMAGES=(valkey-9.1 valkey-8.1 valkey-7.2 redis-7.0)

# unpack_servers [LINE...]: $SERVERS/LINE/{valkey-server,valkey-sentinel,valkey-cli,valkey-benchmark}, of all lines or these. Each runs with the dynamic
# linker and the libraries of its own suite, so it does not matter what this machine has. It replaces the wrapper's
# process: the PID that a test started is the server's.
unpack_servers() {
  local name line root tool
  mkdir -p "$IMAGES"
  for name in "${SERVER_IMAGES[@]}"; do
    image_recipe "$name"
    if (($# > 0)) && [[ " $* " != *" $TAG "* ]]; then continue; fi
    build_image "$name"
    image_recipe "$name"
    line=$TAG root=$SERVERS/.roots/$name
    if [[ ! -e $root/.ready || $root/.ready -ot $IMAGES/$name.tar || $(cat "$root/.ready") != "$(wrapper_digest)" ]]; then
      rm -rf "$root" "${SERVERS:?}/$line"
      mkdir -p "$root" "$SERVERS/$line"
      tar -x -O -f "$IMAGES/$name.tar" layer.tar | tar -x -C "$root" --no-same-owner
      for tool in server sentinel cli benchmark; do write_wrapper "$root" "$tool" "$SERVERS/$line/valkey-$tool"; done
      "$SERVERS/$line/valkey-server" --version >/dev/null || die "the server of $name does not run on this machine"
      wrapper_digest >"$root/.ready"
    fi
    echo "$SERVERS/$line: $("$SERVERS/$line/valkey-server" --version)"
  done
}

wrapper_digest() { sha256sum <"$HERE/lib/servers.sh" | cut -c1-16; }

write_wrapper() { # ROOT TOOL FILE
  local root=$1 tool=$2 file=$3 from
  for from in valkey redict redis; do
    if [[ -e $root/usr/bin/$from-$tool ]]; then break; fi
  done
  # --argv0: the program looks at its own name for what it shall be.
  cat >"$file" <<WRAPPER
#!/bin/sh
exec '$root/lib64/ld-linux-x86-64.so.2' --argv0 '$root/usr/bin/$from-$tool' \\
  --library-path '$root/usr/lib/x86_64-linux-gnu' '$root/usr/bin/$from-$tool' "\$@"
WRAPPER
  chmod 755 "$file"
}

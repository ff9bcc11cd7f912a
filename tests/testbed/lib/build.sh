# shellcheck shell=bash disable=SC2034,SC2154
# What is made once and kept: packages, binaries, images. Sourced by ../testbed.

PACKAGES_NEEDED=(containerd runc containernetworking-plugins nftables iptables conntrack iproute2
  ipset socat ethtool openssl procps jq xz-utils zstd bsdextrautils)

# requirements: stop with the list of what is missing, before anything is changed.
requirements() {
  local missing=()
  ((EUID == 0)) || missing+=('root: it makes namespaces, control groups and network links')
  [[ $(uname -m) == x86_64 ]] || missing+=("an x86-64 machine (this one is $(uname -m))")
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    missing+=('Debian (apt-get, dpkg-deb): images are made of its packages')
  ((${#missing[@]} == 0)) || die "missing here:$(printf '\n  - %s' "${missing[@]}")"
}

# provide_go: a go command of 1.21 or later, which fetches the release that a go.mod asks for by itself, checked against Go's
# checksum database. Where the machine has none, Debian's serves; it is unpacked, not installed.
provide_go() {
  local path=/usr/local/go/bin:$DIR/go/usr/lib/go-1.23/bin
  PATH=$PATH:$path
  if [[ $(go version 2>/dev/null) =~ go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= 21)); then return; fi
  PATH=$path:$PATH # an older one is in the way
  [[ -x $DIR/go/usr/lib/go-1.23/bin/go ]] && return
  echo 'no Go 1.21 or later here: fetching one'
  local work deb
  work=$(mktemp -d "$IMAGES/.go.XXXXXX")
  fetch_packages 'bookworm bookworm-backports' "$work/debs" golang-1.23-go golang-1.23-src
  for deb in "$work"/debs/golang-*.deb; do dpkg-deb -x "$deb" "$work/root"; done
  rm -rf "$DIR/go"
  mv "$work/root" "$DIR/go"
  rm -rf "$work"
}

build() {
  requirements
  mkdir -p "$BIN" "$IMAGES"
  provide_go
  if ! dpkg-query -W "${PACKAGES_NEEDED[@]}" >/dev/null 2>&1; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${PACKAGES_NEEDED[@]}"
  fi
  local version=k8s.io/component-base/version
  echo 'building kube (minutes when cold) and dns'
  (cd "$HERE/kube" && go build -trimpath -o "$KUBE" -ldflags "-s -w -X $version.gitVersion=v$KUBERNETES_VERSION
    -X $version.gitMajor=${KUBERNETES_VERSION%%.*} -X $version.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES_VERSION")" .)
  (cd "$HERE/kube" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$BIN/pause" ./pause)
  (cd "$HERE/dns" && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$BIN/dns" .)
  local name
  for name in "${DEFAULT_IMAGES[@]}"; do build_image "$name"; done
}

# pack REF ROOT [ENTRYPOINT ARG...]: an image of a folder, kept among the images and loaded if a cluster is up.
pack() {
  local ref=$1 root=$2 file
  shift 2
  mkdir -p "$IMAGES"
  file=$IMAGES/packed-${ref//[^A-Za-z0-9.]/_}.tar
  pack_image "$file" "$root" "$(jq -cn '{Entrypoint: $ARGS.positional}' --args -- "$@")" "$ref"
  if [[ -e $RUN/env ]]; then attach && load "$file"; fi
}

#!/usr/bin/env bash
# Makes this machine able to build for wasm32-unknown-unknown, and prints the variables that say how:
#   eval "$(xtask/wasm-toolchain.sh)"; "$WASM_CARGO" rustc --target wasm32-unknown-unknown ...
#   WASM_CARGO      the cargo to call
#   WASM_TOOLCHAIN  a key of the compiler and its std, for naming target folders: cargo does not notice a changed sysroot of the
#                   same compiler version, so each std must have a target folder of its own
#   WASM_STD_SRC    prefix of std's source paths in panic messages, to be remapped; empty when the compiler did so already
#
# 1. The rustc in use has the target (rustup target add wasm32-unknown-unknown): nothing to do.
# 2. Otherwise, on Debian amd64: rustc and std's sources of one version (rustc-web, rust-web-src) are unpacked into a cache folder
#    (no root needed, nothing is installed), std is built once, and its rlibs go into that unpacked toolchain's sysroot, so
#    that later builds need no -Z flag. About 140 MB to download, 80 s, 480 MB on disk.
set -euo pipefail

readonly target=wasm32-unknown-unknown
# The workspace's rust-version, rounded up to what Debian has.
readonly minimum=1.96

say() { echo "wasm-toolchain: $*" >&2; }
fail() { say "$*"; exit 1; }

sysroot=$(${RUSTC:-rustc} --print sysroot)
key_of() { # rustc, folder of its wasm std
  { "$1" -vV; cd "$2" && sha256sum -- libcore-*.rlib libstd-*.rlib; } | sha256sum | cut -c1-12
}

std=$sysroot/lib/rustlib/$target/lib
if compgen -G "$std/libcore-*.rlib" >/dev/null; then
  key=$(key_of "${RUSTC:-rustc}" "$std") # on its own line: a failure inside echo's argument would go unseen
  echo "export WASM_CARGO='${CARGO:-cargo}' WASM_TOOLCHAIN='$key' WASM_STD_SRC=''"
  exit 0
fi

hint="no $target standard library for $sysroot: run 'rustup target add $target'"
# Is it a Debian on amd64, run by an ELF rustc from rustup? (Only that was tried.)
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then fail "$hint"; fi
[ "$(dpkg --print-architecture)" = amd64 ] || fail "$hint (Debian's packages are used on amd64 only)"
host_lib=$sysroot/lib/rustlib/x86_64-unknown-linux-gnu
[ "$(head -c4 "$sysroot/bin/cargo" 2>/dev/null | od -An -c | tr -d ' ')" = '177ELF' ] || fail "$hint ($sysroot/bin/cargo is no ELF file)"

cache=${VKO_WASM_TOOLCHAIN_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/valkey-operator/wasm-toolchain}
mkdir -p "$cache"

print_variables() {
  local key
  key=$(cat "$1/key")
  echo "export WASM_CARGO='$1/cargo' WASM_TOOLCHAIN='$key' WASM_STD_SRC='$1/usr/lib/rustlib/src/rust'"
}

# A toolchain that is there is used without asking the network; `latest` is set last, so it is whole.
if [ -e "$cache/latest/.ready" ]; then
  print_variables "$(readlink -f "$cache/latest")"
  exit 0
fi

exec 9>"$cache/.lock"
flock 9
if [ -e "$cache/latest/.ready" ]; then # another run made it while this one waited
  print_variables "$(readlink -f "$cache/latest")"
  exit 0
fi

# Lists may be old: the suite's base holds a version that is too old, its security suite serves only its newest.
say "apt-get update"
apt-get update -qq >&2 || say "apt-get update failed; going on with the lists that are there"
version=$(apt-cache policy rustc-web | awk '/Candidate:/{print $2}')
if [ -z "$version" ] || [ "$version" = "(none)" ]; then fail "$hint (this Debian has no rustc-web)"; fi
dpkg --compare-versions "$version" ge "$minimum" || fail "$hint (rustc-web is $version, $minimum or newer is needed)"

started=$SECONDS
dir=$cache/${version//[^A-Za-z0-9.+~-]/_}
lib=$dir/usr/lib/x86_64-linux-gnu
rm -rf "$dir"
mkdir -p "$dir/debs"

# What apt would add: names of the libraries carry versions, so apt is asked.
mapfile -t packages < <(
  apt-get install -y --no-install-recommends --reinstall --print-uris rustc-web libstd-rust-web-dev rust-web-src 2>/dev/null |
    sed -n "s/^'[^']*' \([^_ ]*\)_.*\.deb .*/\1/p"
)
[ "${#packages[@]}" -gt 0 ] || fail "apt names no packages for rustc-web $version; see 'apt-get install --print-uris rustc-web'"
say "downloading ${packages[*]}"
(cd "$dir/debs" && apt-get download -qq "${packages[@]}" >&2)
for deb in "$dir"/debs/*.deb; do
  case $deb in
    */rust-web-src_*)
      dpkg-deb --fsys-tarfile "$deb" |
        tar -x -C "$dir" --wildcards './usr/lib/rustlib/*' './usr/src/rustc-*/library/*'
      ;;
    *) dpkg-deb -x "$deb" "$dir" ;;
  esac
done
rm -rf "$dir/debs"
say "unpacked rustc-web $version after $((SECONDS - started)) s"

# A rustc and a cargo that know their libraries and their linker. The host's flags, wrapper and toolchain must not leak in.
linker=$host_lib/bin/rust-lld # every toolchain of rustup ships it
[ -x "$linker" ] || linker=$(command -v rust-lld || command -v wasm-ld) || fail "no wasm linker: install lld"
cat >"$dir/rustc" <<X
#!/bin/sh
LD_LIBRARY_PATH='$lib' exec '$dir/usr/bin/rustc' "\$@"
X
cat >"$dir/cargo" <<X
#!/bin/sh
unset RUSTUP_TOOLCHAIN RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTDOC CARGO_BUILD_TARGET
export RUSTC='$dir/rustc' CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER='$linker'
exec '$sysroot/bin/cargo' "\$@"
X
chmod +x "$dir/rustc" "$dir/cargo"

# Std, once. Bitcode in the rlibs, as in the std that rustup ships, so that lto = true takes std in (without it the guest links,
# silently without std in the LTO, and is a fifth larger).
mkdir -p "$dir/std/src"
cat >"$dir/std/Cargo.toml" <<'X'
[package]
name = "stdonly"
version = "0.0.0"
edition = "2021"
[lib]
[workspace]
[profile.release]
panic = "abort"
opt-level = "s"
codegen-units = 1
X
echo '#![no_std]' >"$dir/std/src/lib.rs"
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
(
  cd "$dir/std"
  export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$dir/std/target"
  export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Cembed-bitcode=yes --remap-path-prefix=$dir/usr/lib/rustlib/src/rust=/rust --remap-path-prefix=$registry=/cargo"
  "$dir/cargo" build --quiet --release --target $target -Zbuild-std=std,panic_abort >&2
)
out=$dir/usr/lib/rustlib/$target/lib
mkdir -p "$out"
cp "$dir/std/target/$target/release/deps/"lib*.rlib "$out/"
rm -f "$out"/libstdonly-*
rm -rf "${dir:?}/std" "${dir:?}/usr/src" "${dir:?}/usr/share"
key_of "$dir/rustc" "$out" >"$dir/key"
[ "$(wc -c <"$dir/key")" -eq 13 ] || fail "the std of $out is incomplete"
touch "$dir/.ready"
ln -sfn "$dir" "$cache/latest.new"
mv -T "$cache/latest.new" "$cache/latest"
say "std for $target ready after $((SECONDS - started)) s in $dir ($(du -sh "$dir" | cut -f1))"
print_variables "$dir"

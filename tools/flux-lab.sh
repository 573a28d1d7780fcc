#!/bin/sh
# flux-lab.sh: builds a Flux to test against, once, into WATTQUEUE_FLUX_LAB (/var/tmp/wattqueue-flux/0.88.0), from the
# source and the build script in ../shared/flux (or WATTQUEUE_FLUX_SOURCE). Takes 5 to 13 minutes on two cores.
# Needs root on Debian for the packages that the build script lists; nothing else is installed outside of the folder.
set -eu
lab=${WATTQUEUE_FLUX_LAB:-/var/tmp/wattqueue-flux/0.88.0}
source=${WATTQUEUE_FLUX_SOURCE:-$(cd "$(dirname "$0")/.." && pwd)/../shared/flux}
if [ ! -e "$lab/.whole" ]; then # an installation that was interrupted has a flux already
    if [ ! -f "$source/build.sh" ]; then
        echo "flux-lab.sh: no build.sh in $source: name its folder in WATTQUEUE_FLUX_SOURCE" >&2
        exit 1
    fi
    "$(dirname "$0")/system-packages.sh" flux
    echo "Building Flux into $lab"
    if ! sh "$source/build.sh" "$lab" >"${TMPDIR:-/tmp}/flux-lab.log" 2>&1; then
        tail -n 5 "${TMPDIR:-/tmp}/flux-lab.log" >&2
        exit 1
    fi
    touch "$lab/.whole"
fi
echo "export WATTQUEUE_FLUX=$lab/bin/flux"

#!/bin/sh
# system-packages.sh [PURPOSE...]: Debian packages that tests use beside Python; by default all but the last three.
#   browser     a headless Chromium, to open the report
#   slurm       a real Slurm with accounting, driven by the live tests; its MariaDB also serves the tests of stores
#   telemetry   a real Prometheus with an exporter
#   postgres    the other database of the live store, and of the stores beside it
#   mqtt        a broker between the controller and the agents of nodes
#   emulation   processors that this machine is not, to run a wheel's libraries on; not by default
#   flux        what builds a Flux (tools/flux-lab.sh); not by default
#   releases    what creates Debians with other releases of Slurm (tools/slurm-releases.sh); not by default
# Installs what is missing where it may (root on Debian); elsewhere says what would be missing and goes on:
# the tests concerned are skipped with that reason. No daemon is started.
set -eu

packages() {
    case $1 in
    browser) echo "chromium fonts-dejavu-core" ;;
    slurm) echo "slurm-wlm slurmdbd slurm-client munge mariadb-server lua-socket slurm-wlm-mysql-plugin" ;;
    telemetry) echo "prometheus prometheus-node-exporter" ;;
    postgres) echo "postgresql" ;;
    mqtt) echo "mosquitto openssl" ;;
    flux) echo "autoconf automake libtool make pkg-config libc6-dev libzmq3-dev uuid-dev libjansson-dev liblz4-dev" \
        "libarchive-dev libhwloc-dev libsqlite3-dev lua5.1 liblua5.1-dev lua-posix python3-dev python3-cffi python3-ply" \
        "python3-setuptools python3-yaml" ;;
    emulation) echo "qemu-user-static" ;;
    releases) echo "mmdebstrap" ;;
    *)
        echo "system-packages.sh: no purpose named $1 (browser, slurm, telemetry, postgres, mqtt, emulation, flux, releases)" >&2
        exit 2
        ;;
    esac
}

installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'
}

[ $# -gt 0 ] || set -- browser slurm telemetry postgres mqtt

if ! command -v apt-get >/dev/null 2>&1; then
    echo "No apt-get here: tests that need these skip where they are missing: $*"
    exit 0
fi

missing=
for purpose in "$@"; do
    for package in $(packages "$purpose"); do
        installed "$package" || missing="$missing $package"
    done
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "Not root: tests that need these packages are skipped. To install them:"
    echo "  sudo apt-get install --no-install-recommends$missing"
    exit 0
fi

# Packages must not start their daemons here: the tests start their own, on ports and folders of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
quiet() { "$@" >/tmp/system-packages.$$ 2>&1 || { cat /tmp/system-packages.$$ >&2; rm -f /tmp/system-packages.$$; return 1; }; rm -f /tmp/system-packages.$$; }
echo "Installing$missing"
# shellcheck disable=SC2086  # a list of words
if ! { quiet apt-get update -q && quiet apt-get install -y -q --no-install-recommends $missing; }; then
    echo "Could not install them; tests that need them are skipped."
fi

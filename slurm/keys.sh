#!/usr/bin/env bash
# Makes the credentials of the jobs: an authority, the broker's certificate, and for each kind of job a key and the broker's entry for it. Run it
# once for a site; it replaces no existing file.
#
#   slurm/keys.sh site.env HOST…        HOST: names or addresses of the nodes on which the broker may run
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# shellcheck source=site.env
. "$1"
shift
umask 077
mkdir -p "$KEYS"
cd "$KEYS"
export PATH="$BUILD/bin:$BUILD:$PATH"
ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
[ -e ca.pem ] || openssl req -x509 "${ec[@]}" -keyout ca.key -out ca.pem -subj "/CN=flopsmith" -days 3650 2>/dev/null
if [ ! -e server.pem ]; then
    names=""
    for host in "$@"; do
        case $host in
            *[!0-9.]*) names+="${names:+,}DNS:$host" ;;
            *) names+="${names:+,}IP:$host" ;;
        esac
    done
    echo "subjectAltName=$names" >names
    openssl req "${ec[@]}" -keyout server.key -out server.csr -subj "/CN=$1" 2>/dev/null
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 3650 -extfile names 2>/dev/null
    rm -f names server.csr
fi
class=${FLOPSMITH_MACHINE_CLASS:-local}
for holder in admin client archive learner,generator compiler,verifier,timer; do
    name=${holder%%,*}
    [ "$name" = compiler ] && name=worker
    [ "$name" = learner ] && name=trainer
    [ -e $name.nk ] || flopsmith cluster key $name.nk --roles $holder --class "$class" >$name.user
done
echo "keys and certificates are in $KEYS" >&2

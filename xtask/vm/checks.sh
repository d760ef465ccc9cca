# What cgroup v2 enforces, checked on a kernel that has nothing else. Prints a line for each check
# and ends with the number of failures.
failures=0
ok() { echo "vm: ok $1"; }
bad() { echo "vm: FAILED $1: $2"; failures=$((failures + 1)); }
same() { [ "$2" = "$3" ] && ok "$1" || bad "$1" "expected $3, found $2"; }

state() { sacct -X -n -P -o State -j "$1"; }
# Waits for the end of a job; at most 120 s.
over() { timeout 120 muster wait "$1" >/dev/null 2>&1; }
job() {
    name=$1
    shift
    { echo '#!/bin/sh'; cat; } >/tmp/"$name".sh
    sbatch --parsable -J "$name" -o /tmp/"$name".out "$@" /tmp/"$name".sh
}

export MUSTER_STATE=/run/muster MUSTER_SOCKET=/run/muster.sock
muster up || { bad up "muster does not start"; cat /run/muster/*.log; exit 1; }
muster slurm-links /links >/dev/null
export PATH=/links:$PATH
cd /tmp

muster doctor | grep -qi 'cgroups\? *v2' && ok doctor || bad doctor "it does not name cgroup v2"

id=$(echo 'echo hello from $SLURM_JOB_ID' | job hello)
over "$id"
same hello "$(cat hello.out)" "hello from $id"
same hello-state "$(state "$id")" COMPLETED

id=$(echo 'tail /dev/zero; echo survived' | job hog --mem=64M)
over "$id"
same memory "$(state "$id")" OUT_OF_MEMORY
peak=$(muster job "$id" --json | tr ',{' '\n\n' | sed -n 's/.*"memory_peak_kib": *//p' | head -n 1)
[ "${peak:-0}" -ge 32768 ] && [ "${peak:-0}" -le 131072 ] && ok peak || bad peak "peak ${peak:-none} KiB"

id=$(echo 'grep Cpus_allowed_list /proc/self/status' | job cpus -c 1)
over "$id"
case "$(cat cpus.out)" in *-* | *,*) bad cpuset "$(cat cpus.out)" ;; *) ok cpuset ;; esac

# Ignores TERM, forks, leaves its session: the whole cgroup goes at the limit.
id=$(cat <<'J' | job stubborn --time=0:02
trap '' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 1000; done' &
(sh -c 'trap "" TERM; while :; do sleep 1000; done' &)
while :; do sleep 1000; done
J
)
over "$id"
same limit "$(state "$id")" TIMEOUT
same whole "$(ps -o args | grep -c '^sleep 1000')" 0

id=$(echo 'i=0; while :; do i=$((i+1)); echo $i; done' | job spin)
until grep -q . spin.out 2>/dev/null; do sleep 0.2; done
scontrol suspend "$id"
until [ "$(squeue -h -o %T -j "$id")" = SUSPENDED ]; do sleep 0.2; done
before=$(wc -c <spin.out); sleep 1; after=$(wc -c <spin.out)
same suspended "$after" "$before"
scontrol resume "$id"
until [ "$(wc -c <spin.out)" -gt "$after" ]; do sleep 0.2; done
ok resumed
scancel "$id"
over "$id"
case "$(state "$id")" in CANCELLED*) ok cancelled ;; *) bad cancelled "$(state "$id")" ;; esac

left=$(find /sys/fs/cgroup -type d -path '*muster*job*' | wc -l | tr -d ' ')
same cgroups-left "$left" 0
muster down
[ "$failures" = 0 ] && echo "vm: all passed"
exit "$failures"

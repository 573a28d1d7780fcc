#!/bin/sh
# WattQueue: one line about the job's energy at the end of its output. Written by `wattqueue live install`.
# Slurm runs a TaskEpilog after each task: only the batch step, which has no number, prints. Its standard error is the
# job's own. Storage that does not answer is waited for one second, and the exit status is 0 whatever fails.
folder=@FOLDER@
case ${SLURM_STEP_ID:-batch} in batch | 4294967291) ;; *) exit 0 ;; esac
name=${SLURM_JOB_ID:-0}
[ -n "${SLURM_ARRAY_JOB_ID:-}" ] && name=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
[ -n "${SLURM_HET_JOB_ID:-}" ] && name=${SLURM_HET_JOB_ID}+${SLURM_HET_JOB_OFFSET:-0}
file=$folder/users/$(id -u)/jobs/running
rows=$(timeout 1 cat "$file" 2>/dev/null) || exit 0
while read -r job at joules watts label rest; do
  [ "$job" = "$name" ] || continue
  case $at$joules$watts in '' | *[!0-9]*) exit 0 ;; esac
  wh=$(((joules + watts * ($(date +%s) - at)) / 3600))
  echo "wattqueue: job $name used about $wh Wh ($label, preliminary; \`wattqueue job $name\` has the final figure)" >&2
  exit 0
done <<EOF
$rows
EOF
exit 0

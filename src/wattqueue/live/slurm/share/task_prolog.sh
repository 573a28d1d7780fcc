#!/bin/sh
# WattQueue: hand the frequency that was chosen for this job to its steps. Installed by `wattqueue live install`.
folder=@FOLDER@
name=${SLURM_JOB_ID:-0}
[ -n "${SLURM_ARRAY_JOB_ID:-}" ] && name=${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}
[ -r "$folder/$name" ] || exit 0
read -r khz < "$folder/$name"
case $khz in
  '' | *[!0-9]*) ;;
  *) echo "export SLURM_CPU_FREQ_REQ=$khz" ;;
esac
exit 0

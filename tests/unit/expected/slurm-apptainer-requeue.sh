#!/bin/bash
#SBATCH --job-name=torch_mnist
#SBATCH --output=/scratch/ada/runs/torch_mnist-1/logs/job.log
#SBATCH --chdir=/scratch/ada
#SBATCH --nodes=2
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120

# Written by runner 0.1.0.
# Submit it again by hand: sbatch /scratch/ada/runs/torch_mnist-1/job.sbatch
# scheduler: slurm (sbatch is on this machine)
# runtime: apptainer (not on this machine; assumed on the nodes)
# controller: mpi (the image has PMIx 4.2.2 and srun offers --mpi=pmix)
# launcher: srun (Slurm starts, counts and ends the ranks itself)
# mpi: pmix (the PMI of the image's MPI (PMIx))
# nv: no (the job requests no GPU)
# gradient-transport: mpi (the CPU transport of the controller)
# threads: 1 (CPUs per rank)
# mpi-yield-when-idle: yes (a rank that waits in MPI yields its CPU to the computation)
# requeue: 10 (at the time limit or on preemption; it resumes from its checkpoint)
# signal: 120 (time to finish a step and save)
# gate: Horovod, torch.distributed, tf.distribute, mpi4py (world-size check: one of them must create a process group of all 2 ranks)
# recipe: image (the image contains it)
run=/scratch/ada/runs/torch_mnist-1
unset SLURM_EXPORT_ENV SRUN_EXPORT_ENV

# The last task of an array has the array's own number, by which all of its tasks are meant.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-$SLURM_JOB_ID}
# Queue the job again, unless it was cancelled.
again() {
  [ -z "$told_to_end" ] || return 1
  # Slurm itself does so when a preempted job's script has ended.
  case $(scontrol show job "$job") in *PreemptTime=[0-9]*) return ;; esac
  if [ "${SLURM_RESTART_COUNT:-0}" -ge 10 ]; then
    echo "runner: stopped early, and all 10 restarts are used; go on: sbatch $run/job.sbatch"
    return 1
  fi
  scontrol requeue "$job"
}
# Leave the exit code in the run's folder: it outlives the scheduler's memory of the job.
finish() {
  code=$?
  # A signal that ends this script itself, while the ranks run, leaves 0.
  if [ "$code" = 0 ] && [ -n "$ranks_run" ]; then code=1; fi
  # Ranks that saved and stopped early end with 0 and leave word of it.
  if [ "$code" = 0 ] && [ -e "$run/stopped.json" ]; then code=91; fi
  printf '{"ended": %s}\n' "$(date +%s.%3N)" >> "$run/starts.jsonl"
  if [ "$code" = 91 ] && again; then exit "$code"; fi
  printf '{"form": 1, "exit_code": %d, "time": %d, "began": %s}\n' \
    "$code" "$(date +%s)" "$began" > "$run/exit.json.part" &&
    mv "$run/exit.json.part" "$run/exit.json"
  # Ranks that were killed have left their temporary folders.
  [ "$code" = 0 ] || [ "$code" = 91 ] || timeout 60 srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi=none --cpu-bind=none python3 "$run/code/injob" tidy 2> /dev/null
  # A full disk leaves half of it, and so does a rank that was killed while it saved.
  rm -f "$run"/*.json.part "$run"/checkpoints/.*.part
  exit "$code"
}
# Slurm may start a job again that has ended well, when it was preempted before (its ticket 25682).
if [ -n "$SLURM_RESTART_COUNT" ] && grep -qs '"exit_code": 0,' "$run/exit.json"; then exit; fi
rm -rf "$run/failures" "$run/exit.json" "$run/result.json" "$run/stopped.json"
began=$(date +%s.%3N)  # what is lost before the first step is counted from here
printf '{"began": %s, "nodes": "%s"}\n' "$began" "$SLURM_JOB_NODELIST" >> "$run/starts.jsonl"
trap finish EXIT
# Slurm may go on in the same log: what follows is of this start.
[ -z "$SLURM_RESTART_COUNT" ] || echo "runner: start $((SLURM_RESTART_COUNT + 1))"
ranks= warned= told_to_end=
# Slurm's warning goes on to the ranks, which save and stop; without ranks there is nothing to save.
warn() { warned=yes; if [ -n "$ranks" ]; then kill -USR1 "$ranks"; else exit 91; fi; }
trap warn USR1
trap 'warned=yes told_to_end=yes' TERM  # Slurm sends it to the ranks too
# Once a rank has failed, the step has ended soon, unless the slurmstepd of a node is gone. Where
# nothing is written below the run's folder for 300 s, it is ended here.
stuck() {
  ls "$run"/failures/* > /dev/null 2>&1 &&
    new=$(find "$run" -type f -newermt '300 seconds ago' -print -quit) && [ -z "$new" ]
}

unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD
unset BASH_ENV ENV
for name in $(compgen -A function); do export -fn "$name"; done

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
export PMIX_MCA_gds="${PMIX_MCA_gds:-hash}"
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
export OMPI_MCA_mpi_abort_delay="${OMPI_MCA_mpi_abort_delay:-1}"
export APPTAINER_NO_EVAL=1
export APPTAINERENV_RESUME="${APPTAINERENV_RESUME:-${RESUME:-auto}}"
export APPTAINERENV_PYTHONNOUSERSITE=1
export APPTAINERENV_OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1

ranks_run=yes
srun --mpi=pmix --kill-on-bad-exit=1 --wait=600 --ntasks=2 \
  apptainer exec --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob rank --controller mpi --run-dir /scratch/ada/runs/torch_mnist-1 -- \
  -m recipes.torch_mnist --epochs 5 &
ranks=$!
{ [ -z "${release-}" ] || exec {release}>&-  # else staged files are held as long as it sleeps
  until stuck; do sleep 30 > /dev/null 2>&1; done
  echo "runner: a rank has failed, and its step does not end: the script ends it"
  kill "$ranks"; sleep 30; kill -KILL "$ranks"; } &
watch=$!
disown "$watch"  # not waited for: a signal that ends `wait` may lose the end of another child
until wait "$ranks"; code=$?; [ -z "$warned" ]; do warned=; done  # a signal ends `wait` early
kill "$watch" 2> /dev/null
ranks= ranks_run=
exit "$code"

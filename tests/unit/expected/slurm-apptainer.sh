#!/bin/bash
#SBATCH --job-name=torch_mnist
#SBATCH --output=/scratch/ada/runs/torch_mnist-1/logs/job.log
#SBATCH --chdir=/scratch/ada
#SBATCH --nodes=2
#SBATCH --cpus-per-task=2
#SBATCH --no-requeue

# Written by runner 0.1.0.
# Submit it again by hand: sbatch /scratch/ada/runs/torch_mnist-1/job.sbatch
# scheduler: slurm (sbatch is on this machine)
# runtime: apptainer (not on this machine; assumed on the nodes)
# controller: mpi (the image has PMIx 4.2.2 and srun offers --mpi=pmix)
# launcher: srun (Slurm starts, counts and ends the ranks itself)
# mpi: pmix (the PMI of the image's MPI (PMIx))
# nv: no (the job requests no GPU)
# gradient-transport: mpi (the CPU transport of the controller)
# cpus-per-task: 2 (as requested)
# threads: 2 (CPUs per rank)
# mpi-yield-when-idle: yes (a rank that waits in MPI yields its CPU to the computation)
# gate: Horovod, torch.distributed, tf.distribute, mpi4py (world-size check: one of them must create a process group of all 2 ranks)
# recipe: image (the image contains it)
run=/scratch/ada/runs/torch_mnist-1
unset SLURM_EXPORT_ENV SRUN_EXPORT_ENV

# Leave the exit code in the run's folder: it outlives the scheduler's memory of the job.
finish() {
  code=$?
  # A signal that ends this script itself, while the ranks run, leaves 0.
  if [ "$code" = 0 ] && [ -n "$ranks_run" ]; then code=1; fi
  # Ranks that saved and stopped early end with 0 and leave word of it.
  if [ "$code" = 0 ] && [ -e "$run/stopped.json" ]; then code=91; fi
  printf '{"ended": %s}\n' "$(date +%s.%3N)" >> "$run/starts.jsonl"
  printf '{"form": 1, "exit_code": %d, "time": %d, "began": %s}\n' \
    "$code" "$(date +%s)" "$began" > "$run/exit.json.part" &&
    mv "$run/exit.json.part" "$run/exit.json"
  # Ranks that were killed have left their temporary folders.
  [ "$code" = 0 ] || [ "$code" = 91 ] || timeout 60 srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi=none --cpu-bind=none python3 "$run/code/injob" tidy 2> /dev/null
  # A full disk leaves half of it, and so does a rank that was killed while it saved.
  rm -f "$run"/*.json.part "$run"/checkpoints/.*.part
  exit "$code"
}
rm -rf "$run/failures" "$run/exit.json" "$run/result.json" "$run/stopped.json"
began=$(date +%s.%3N)  # what is lost before the first step is counted from here
printf '{"began": %s, "nodes": "%s"}\n' "$began" "$SLURM_JOB_NODELIST" >> "$run/starts.jsonl"
trap finish EXIT
# Slurm may go on in the same log: what follows is of this start.
[ -z "$SLURM_RESTART_COUNT" ] || echo "runner: start $((SLURM_RESTART_COUNT + 1))"
warned=
trap warned=yes TERM  # Slurm sends it to the ranks too; their end is the job's
# Once a rank has failed, the step has ended soon, unless the slurmstepd of a node is gone. Where
# nothing is written below the run's folder for 300 s, it is ended here.
stuck() {
  ls "$run"/failures/* > /dev/null 2>&1 &&
    new=$(find "$run" -type f -newermt '300 seconds ago' -print -quit) && [ -z "$new" ]
}

unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD
unset BASH_ENV ENV
for name in $(compgen -A function); do export -fn "$name"; done

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
export PMIX_MCA_gds="${PMIX_MCA_gds:-hash}"
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
export OMPI_MCA_mpi_abort_delay="${OMPI_MCA_mpi_abort_delay:-1}"
export APPTAINER_NO_EVAL=1
export APPTAINERENV_PYTHONNOUSERSITE=1
export APPTAINERENV_OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1

ranks_run=yes
srun --mpi=pmix --kill-on-bad-exit=1 --wait=600 --ntasks=2 --cpus-per-task=2 \
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
# Not in `wait`: of a child that ends there as a signal comes, bash may lose the exit code.
exec {idle}<> <(:)
while kill -0 "$ranks" 2> /dev/null; do read -rt 0.2 -u "$idle"; done
# A signal ends `wait` early with a code above 128, and bash 5.2 may give it twice: two waits that
# agree are right. In POSIX mode the second wait for a child would not know it.
set +o posix
last=
until wait "$ranks"; code=$?; [ "$code" -le 128 ] || [ "$code:$warned" = "$last:" ]; do
  last=${warned:-$code} warned=
done
kill "$watch" 2> /dev/null
ranks= ranks_run=
exit "$code"

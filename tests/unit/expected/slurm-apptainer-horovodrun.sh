#!/bin/bash
#SBATCH --job-name=torch_mnist
#SBATCH --output=/scratch/ada/runs/torch_mnist-1/logs/job.log
#SBATCH --chdir=/scratch/ada
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --no-requeue

# Written by runner 0.1.0.
# Submit it again by hand: sbatch /scratch/ada/runs/torch_mnist-1/job.sbatch
# scheduler: slurm (sbatch is on this machine)
# runtime: apptainer (not on this machine; assumed on the nodes)
# controller: gloo (Gloo needs nothing from the launcher)
# launcher: horovodrun (as requested)
# ssh: yes (horovodrun starts ranks on other nodes by it: steps of this job)
# nv: no (the job requests no GPU)
# gradient-transport: gloo (the CPU transport of the controller)
# cpus-per-task: 2 (as requested)
# threads: 2 (CPUs per rank)
# network-interfaces: detected on the nodes (each node uses the one that routes to rank 0's node)
# gate: Horovod, torch.distributed, tf.distribute, mpi4py (world-size check: one of them must create a process group of all 8 ranks)
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
  timeout 60 srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --mpi=none --cpu-bind=none python3 "$run/code/injob" tidy 2> /dev/null
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
trap : TERM  # Slurm sends it to the ranks too; their end is the job's

unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD
unset BASH_ENV ENV
for name in $(compgen -A function); do export -fn "$name"; done

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
export APPTAINER_NO_EVAL=1
export APPTAINERENV_PYTHONNOUSERSITE=1
export APPTAINERENV_OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1
# The values of SEED HOROVOD_CYCLE_TIME stand where only their owner reads them.
RUNNER_PREFIX=APPTAINERENV_ . "$run/private/env.sh" || exit

unset SLURM_STEP_ID SLURM_STEPID SLURM_JOBID SLURM_NODELIST SLURMD_NODENAME
unset OMPI_MCA_plm_slurm_args PRTE_MCA_plm_slurm_args

# The nodes that `ssh` in the container reaches, by steps of this job.
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 2 | paste -s -d , -)
hosts=${nodes//,/:4,}:4

ranks_run=yes
python3 /scratch/ada/runs/torch_mnist-1/code/injob ssh-around apptainer "$nodes" /scratch/ada/runs/torch_mnist-1/code/enter srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --mpi=none --cpu-bind=none --mem=0 -- \
  apptainer exec --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob around env -uSEED horovodrun -np 8 --gloo -H "$hosts" sh -c '. "$0" && exec "$@"' "$run/private/env.sh" python3 /scratch/ada/runs/torch_mnist-1/code/injob rank --launcher horovodrun --controller gloo --run-dir /scratch/ada/runs/torch_mnist-1 -- \
  -m recipes.torch_mnist --epochs 5
code=$? ranks_run=
exit "$code"

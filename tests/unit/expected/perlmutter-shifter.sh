#!/bin/bash
#SBATCH --job-name=torch_mnist
#SBATCH --output=/scratch/ada/runs/torch_mnist-1/logs/job.log
#SBATCH --chdir=/scratch/ada
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --time=01:00:00
#SBATCH --account=m1_g
#SBATCH --qos=regular
#SBATCH --constraint=gpu
#SBATCH --no-requeue

# Written by runner 0.1.0.
# Submit it again by hand: sbatch /scratch/ada/runs/torch_mnist-1/job.sbatch
# site: perlmutter (as requested)
# scheduler: slurm (sbatch is on this machine)
# runtime: shifter (the runtime of perlmutter)
# controller: gloo (the image's MPI has no PMIx)
# launcher: srun (Slurm starts, counts and ends the ranks itself)
# mpi: none (Gloo needs no PMI)
# nv: yes (the job requests GPUs)
# driver: any (each node is checked when the job starts)
# gpu-of-a-rank: local-rank (each rank sees all 4 of its node, which keeps peer-to-peer)
# gradient-transport: nccl (GPUs; NCCL is Horovod's fastest transport for them)
# cpus-per-task: 32 (as requested)
# threads: 32 (CPUs per rank)
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

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-32}"
export SLURM_CPU_BIND="${SLURM_CPU_BIND:-cores}"
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}"
export FI_CXI_RDZV_THRESHOLD="${FI_CXI_RDZV_THRESHOLD:-0}"
export FI_CXI_RDZV_GET_MIN="${FI_CXI_RDZV_GET_MIN:-0}"
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE:-131072}"

ranks_run=yes
srun --mpi=none --kill-on-bad-exit=1 --wait=600 --cpus-per-task=32 \
  shifter --image=docker:ada/hvd:1 --module=gpu,nccl-plugin --env=PYTHONNOUSERSITE=1 --env=OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1 --env=CUDA_VISIBLE_DEVICES=3,2,1,0 \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob rank --controller gloo --nv --run-dir /scratch/ada/runs/torch_mnist-1 -- \
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

#!/bin/bash -l
#COBALT --jobname torch_mnist
#COBALT --mode script
#COBALT -n 2
#COBALT -t 60
#COBALT -q full-node
#COBALT -A project
#COBALT -o /dev/null
#COBALT -e /dev/null

# Written by runner 0.1.0.
# Submit it again by hand: qsub /scratch/ada/runs/torch_mnist-1/job.sbatch
# site: thetagpu (as requested)
# scheduler: cobalt (cqsub is on this machine)
# runtime: singularity (the runtime of thetagpu)
# controller: mpi (as requested)
# launcher: mpirun (the host's mpirun, with the job's node list)
# mpirun: openmpi 4.0.5 (this machine's, expected on the nodes too)
# nv: yes (the job requests GPUs)
# driver: any (each node is checked when the job starts)
# gpu-of-a-rank: local-rank (each rank sees all 8 of its node, which keeps peer-to-peer)
# gradient-transport: nccl (GPUs; NCCL is Horovod's fastest transport for them)
# cpus-per-task: 16 (as requested)
# threads: 16 (CPUs per rank)
# host-mpi: yes (configured for thetagpu)
# gate: Horovod, torch.distributed, tf.distribute, mpi4py (world-size check: one of them must create a process group of all 16 ranks)
# recipe: image (the image contains it)
run=/scratch/ada/runs/torch_mnist-1
cd /scratch/ada || exit
exec >> /scratch/ada/runs/torch_mnist-1/logs/job.log 2>&1

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
  [ "$code" = 0 ] || [ "$code" = 91 ] || timeout 60 python3 "$run/code/injob" tidy 2> /dev/null
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
trap 'exit 143' TERM

unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD
unset BASH_ENV ENV
for name in $(compgen -A function); do export -fn "$name"; done

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-16}"
export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
export PMIX_MCA_gds="${PMIX_MCA_gds:-hash}"
export OMPI_MCA_mpi_abort_delay="${OMPI_MCA_mpi_abort_delay:-1}"
export HWLOC_COMPONENTS="${HWLOC_COMPONENTS:--gl}"
export http_proxy="${http_proxy:-http://proxy.tmi.alcf.anl.gov:3128}"
export https_proxy="${https_proxy:-http://proxy.tmi.alcf.anl.gov:3128}"
export SINGULARITY_NO_EVAL=1
export SINGULARITYENV_PYTHONNOUSERSITE=1
export SINGULARITYENV_OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1
export SINGULARITYENV_LD_LIBRARY_PATH="/lus/theta-fs0/software/thetagpu/openmpi-4.0.5/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# The host's MPI in the image, before the job proper: found, complete, and one world.
mpirun -hostfile "$COBALT_NODEFILE" -n 16 -npernode 8 --bind-to none -x PATH -x OMP_NUM_THREADS -x OMPI_MCA_btl_vader_single_copy_mechanism -x PMIX_MCA_gds -x OMPI_MCA_mpi_abort_delay -x HWLOC_COMPONENTS -x http_proxy -x https_proxy -x SINGULARITY_NO_EVAL -x SINGULARITYENV_PYTHONNOUSERSITE -x SINGULARITYENV_OUTPUT_DIR -x SINGULARITYENV_LD_LIBRARY_PATH \
  singularity exec --nv --bind /lus/theta-fs0/software/thetagpu/openmpi-4.0.5:/lus/theta-fs0/software/thetagpu/openmpi-4.0.5:ro --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob mpicheck mpirun /scratch/ada/runs/torch_mnist-1 || {
  echo "runner: the check of the host's MPI in the image failed, exit code $?" >&2
  exit 90
}

ranks_run=yes
mpirun -hostfile "$COBALT_NODEFILE" -n 16 -npernode 8 --bind-to none -x PATH -x OMP_NUM_THREADS -x OMPI_MCA_btl_vader_single_copy_mechanism -x PMIX_MCA_gds -x OMPI_MCA_mpi_abort_delay -x HWLOC_COMPONENTS -x http_proxy -x https_proxy -x SINGULARITY_NO_EVAL -x SINGULARITYENV_PYTHONNOUSERSITE -x SINGULARITYENV_OUTPUT_DIR -x SINGULARITYENV_LD_LIBRARY_PATH \
  singularity exec --nv --bind /lus/theta-fs0/software/thetagpu/openmpi-4.0.5:/lus/theta-fs0/software/thetagpu/openmpi-4.0.5:ro --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob rank --launcher mpirun --controller mpi --nv --run-dir /scratch/ada/runs/torch_mnist-1 -- \
  -m recipes.torch_mnist --epochs 5
code=$? ranks_run=
exit "$code"

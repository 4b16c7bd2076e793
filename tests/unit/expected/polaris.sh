#!/bin/bash -l
#PBS -N torch_mnist
#PBS -j oe
#PBS -o /dev/null
#PBS -l select=2:system=polaris
#PBS -l place=scatter:excl
#PBS -l walltime=01:00:00
#PBS -q debug-scaling
#PBS -A project
#PBS -l filesystems=home:eagle

# Written by runner 0.1.0.
# Submit it again by hand: qsub /scratch/ada/runs/torch_mnist-1/job.sbatch
# site: polaris (as requested)
# scheduler: pbs (qsub is on this machine)
# runtime: apptainer (the runtime of polaris)
# controller: mpi (as requested)
# launcher: mpiexec (the scheduler's own launcher, which knows the job's nodes)
# nv: yes (the job requests GPUs)
# driver: any (each node is checked when the job starts)
# gpu-of-a-rank: local-rank (each rank sees all 4 of its node, which keeps peer-to-peer)
# gradient-transport: nccl (GPUs; NCCL is Horovod's fastest transport for them)
# cpus-per-task: 8 (as requested)
# threads: 8 (CPUs per rank)
# host-mpi: yes (configured for polaris)
# gate: Horovod, torch.distributed, tf.distribute, mpi4py (world-size check: one of them must create a process group of all 8 ranks)
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

module use /soft/modulefiles
module load spack-pe-base || { echo 'runner: no module spack-pe-base: it could not be loaded on this node' >&2; exit 93; }
module load apptainer || { echo 'runner: no module apptainer: it could not be loaded on this node' >&2; exit 93; }
module load cray-mpich-abi || { echo 'runner: no module cray-mpich-abi: it could not be loaded on this node' >&2; exit 93; }
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE LD_PRELOAD
unset BASH_ENV ENV
for name in $(compgen -A function); do export -fn "$name"; done

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-8}"
export http_proxy="${http_proxy:-http://proxy.alcf.anl.gov:3128}"
export https_proxy="${https_proxy:-http://proxy.alcf.anl.gov:3128}"
export HTTP_PROXY="${HTTP_PROXY:-http://proxy.alcf.anl.gov:3128}"
export HTTPS_PROXY="${HTTPS_PROXY:-http://proxy.alcf.anl.gov:3128}"
export FI_CXI_DISABLE_HOST_REGISTER="${FI_CXI_DISABLE_HOST_REGISTER:-1}"
export FI_CXI_RDZV_THRESHOLD="${FI_CXI_RDZV_THRESHOLD:-0}"
export FI_CXI_RDZV_GET_MIN="${FI_CXI_RDZV_GET_MIN:-0}"
export FI_CXI_DEFAULT_CQ_SIZE="${FI_CXI_DEFAULT_CQ_SIZE:-131072}"
export FI_MR_CACHE_MONITOR="${FI_MR_CACHE_MONITOR:-userfaultfd}"
export NCCL_NET_GDR_LEVEL="${NCCL_NET_GDR_LEVEL:-PHB}"
export NCCL_CROSS_NIC="${NCCL_CROSS_NIC:-1}"
export NCCL_COLLNET_ENABLE="${NCCL_COLLNET_ENABLE:-1}"
export APPTAINER_NO_EVAL=1
export APPTAINERENV_PYTHONNOUSERSITE=1
export APPTAINERENV_OUTPUT_DIR=/scratch/ada/runs/torch_mnist-1
export APPTAINERENV_LD_LIBRARY_PATH="/soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib:/soft/libraries/hwloc/lib${CRAY_LD_LIBRARY_PATH:+:$CRAY_LD_LIBRARY_PATH}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/opt/cray/pe/pals/1.2.12/lib"
export APPTAINERENV_CUDA_VISIBLE_DEVICES=3,2,1,0

# The host's MPI in the image, before the job proper: found, complete, and one world.
mpiexec -n 8 -ppn 4 --depth 8 --cpu-bind depth \
  apptainer exec --nv --bind /opt:/opt:ro --bind /var/run/palsd:/var/run/palsd:ro --bind /soft/libraries:/soft/libraries:ro --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 --fakeroot /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob mpicheck mpiexec /scratch/ada/runs/torch_mnist-1 || {
  echo "runner: the check of the host's MPI in the image failed, exit code $?" >&2
  exit 90
}

ranks_run=yes
mpiexec -n 8 -ppn 4 --depth 8 --cpu-bind depth \
  apptainer exec --nv --bind /opt:/opt:ro --bind /var/run/palsd:/var/run/palsd:ro --bind /soft/libraries:/soft/libraries:ro --bind /scratch/ada/runs/torch_mnist-1:/scratch/ada/runs/torch_mnist-1 --fakeroot /scratch/ada/images/horovod.sif \
  python3 /scratch/ada/runs/torch_mnist-1/code/injob rank --launcher mpiexec --controller mpi --nv --run-dir /scratch/ada/runs/torch_mnist-1 -- \
  -m recipes.torch_mnist --epochs 5
code=$? ranks_run=
exit "$code"

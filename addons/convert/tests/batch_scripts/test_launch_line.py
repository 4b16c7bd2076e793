"""Launch lines: what becomes an option, what is left out, and what only the run knows."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from runner_convert.batch_scripts import script, script_report
from runners.cli.train.launch import launch_command

from .read_script import line, lines, read, said

HEAD = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"
IN_HEAD = "--nodes 2 --ntasks-per-node 4"
RUN = "srun apptainer exec image.sif"
BY_SSH = "for h in $(scontrol show hostnames); do ssh $h"

# Commands after HEAD, and the line behind its counts.
LINES = {
    "a script": (f"{RUN} python -u train.py --lr 0.1", "--image image.sif train.py -- --lr 0.1"),
    "no arguments": (f"{RUN} python3 train.py", "--image image.sif train.py"),
    "a module": (f"{RUN} python -m pkg.train", "--image image.sif -- python -m pkg.train"),
    "a program": (f"{RUN} ./train --fast", "--image image.sif -- ./train --fast"),
    "a shell script": (f"{RUN} bash run.sh a", "--image image.sif bash -- run.sh a"),
    "a continued line": (
        "srun \\\n  apptainer exec image.sif \\\n  python t.py",
        "--image image.sif t.py",
    ),
    "a variable": (
        'SIF=/data/image.sif\nARGS="--a 1 --b 2"\nsrun apptainer exec $SIF python t.py $ARGS',
        "--image /data/image.sif t.py -- --a 1 --b 2",
    ),
    "the number of nodes": (
        f"export N=`scontrol show hostnames $SLURM_JOB_NODELIST | wc -l`\n{RUN} python t.py",
        "--image image.sif --env N=2 t.py",
    ),
    "a $ of no variable": (
        f"{RUN} python t.py a$/b --c=^$ $",
        "--image image.sif t.py -- 'a$/b' '--c=^$' '$'",
    ),
    "no input": (f"{RUN} python t.py < /dev/null", "--image image.sif t.py"),
    "words that a condition adds to others": (
        f'A="--lr 1 --d $D"\nif x; then A="$A --amp"; else A+=" --bf16"; fi\n'
        f'if y; then A="$A --z"; fi\n{RUN} python t.py $A',
        "--image image.sif t.py -- --lr 1 --d $D '<$A>'",
    ),
    "items that a condition adds to a list": (
        "A=(--container-image i:1)\nif x; then A+=(--y=1); fi\nsrun ${A[@]} python t.py",
        "--image docker://i:1 t.py",
    ),
    "a value that a condition replaces": (
        f"A=(--lr 1)\nif x; then A=(--lr 2); fi\n{RUN} python t.py ${{A[@]}}",
        "--image image.sif t.py -- '<$A>'",
    ),
    "a path that is made absolute": (
        f"D=$(realpath ../data)\n{RUN} python t.py $D $(readlink -f /a/b/)",
        "--image image.sif t.py -- $PWD/../data /a/b",
    ),
    "a path that is made another one": (
        f"A=$(realpath --relative-to=/a /a/b)\nB=$(readlink latest)\nC=$(basename a.sh .sh)\n"
        f"{RUN} python t.py $(realpath -m /a) $(readlink -nf /b) $A $B $C",
        "--image image.sif t.py -- /a /b '<$(realpath --relative-to=/a /a/b)>'"
        " '<$(readlink latest)>' '<$(basename a.sh .sh)>'",
    ),
    "the address of the first rank, which a command prints": (
        f"export MASTER_ADDR=$(./first)\n{RUN} python t.py --at $MASTER_ADDR",
        "--image image.sif -- bash -c"
        """ 'exec python t.py --at "${MASTER_ADDR:-$(hostname)}"'""",
    ),
    "a program that a condition chooses": (
        f"if x; then P=a.py; else P=b.py; fi\n{RUN} torchrun --nproc-per-node 4 $P --c",
        "--launcher torchrun --image image.sif -- '<$P>' --c",
    ),
    "an array": (
        f'ARGS=(--name "two words")\nARGS+=(--b)\n{RUN} python t.py "${{ARGS[@]}}"',
        "--image image.sif t.py -- --name 'two words' --b",
    ),
    "words behind a redirection": (
        f"{RUN} python t.py > $(date).log --a $(pwd)/b 2>&1 --c",
        "--image image.sif t.py -- --a $PWD/b --c",
    ),
    "words behind the redirection of a pipe": (
        f"{RUN} python t.py | grep loss > log -v",
        "--image image.sif t.py",
    ),
    "a text for Python first": (
        f"python <<< 'print()'\n{RUN} python t.py",
        "--image image.sif t.py",
    ),
    "a default of a copy that may be empty": (
        f"A=${{SEED:-}}\n{RUN} python t.py ${{A:-7}}",
        '--image image.sif t.py -- "${SEED:-7}"',
    ),
    "items behind an option that has a value": (
        f"L=('--a 1' '--a 2')\n{RUN} python t.py --b=1 ${{L[$SLURM_ARRAY_TASK_ID]}}",
        "--image image.sif -- bash -c 'L=('\"'\"'--a 1'\"'\"' '\"'\"'--a 2'\"'\"'); exec python"
        " t.py --b=1 ${L[$SLURM_ARRAY_TASK_ID]}'",
    ),
    "quotes in a here-document": (
        f'{RUN} bash << E\npython t.py "a \\"b\\""\nE',
        "--image image.sif t.py -- 'a \"b\"'",
    ),
    "a login shell": (
        f"{RUN} bash -lc 'module load a && python t.py'",
        "--image image.sif -- bash -lc 'module load a && python t.py'",
    ),
    "python3 in the shell of a rank": (
        f"{RUN} python3 t.py $SLURM_JOB_ID",
        "--image image.sif -- bash -c 'exec python3 t.py \"$SLURM_JOB_ID\"'",
    ),
    "an item that may be empty": (
        f"L=('' --bn)\n{RUN} python t.py ${{L[$SLURM_ARRAY_TASK_ID]}}",
        "--image image.sif -- bash -c 'L=('\"'\"''\"'\"' --bn); exec python t.py"
        " ${L[$SLURM_ARRAY_TASK_ID]}'",
    ),
    "an item that is nothing": (
        f"for a in {{1,}}; do {RUN} python t.py $a; done",
        "--image image.sif t.py -- 1",
    ),
    "a comment with a backslash": (f"{RUN} python t.py # --a\\\ndate", "--image image.sif t.py"),
    "a here-document of no command": (
        f"<<note\n- to 'do\n- it's\nnote\n{RUN} python t.py",
        "--image image.sif t.py",
    ),
    "a command within a word": (
        f"{RUN} python t.py /a/`whoami`/b c`pwd`d",
        '--image image.sif t.py -- /a/$USER/b "c${PWD}d"',
    ),
    "a list as one word": (
        f'go() {{ {RUN} bash -c "exec python t.py $*"; }}\ngo --a 1',
        "--image image.sif t.py -- --a 1",
    ),
    "an export of several variables": (
        f'ALL="A=1 B=2"\nexport $ALL\n{RUN} python t.py',
        "--image image.sif --env A=1 --env B=2 t.py",
    ),
    "a text that decides a variable": (
        f"{RUN} bash -c 'if [ $X ]; then export A=1; fi; python t.py'",
        "--image image.sif -- bash -c 'if [ $X ]; then export A=1; fi; python t.py'",
    ),
    "arithmetic": (
        f"N=$((2 * 3 + SLURM_NNODES))\n{RUN} python t.py $N",
        "--image image.sif t.py -- 8",
    ),
    "arithmetic of expr": (
        f"N=$(expr $SLURM_NNODES \\* 4)\n{RUN} python t.py $N \\*",
        "--image image.sif t.py -- 8 '*'",
    ),
    "the user's variable": (
        f'{RUN} python t.py $SCRATCH/data "$WORK/a b"',
        '--image image.sif t.py -- $SCRATCH/data "$WORK/a b"',
    ),
    "names in braces": (
        f"{RUN} python t.py ${{USER}}_a $USER-b ${{SLURM_ARRAY_TASK_ID}}_c",
        '--image image.sif -- bash -c "exec python t.py \\"${USER}_a\\" \\"$USER-b\\"'
        ' \\"\\${SLURM_ARRAY_TASK_ID}_c\\""',
    ),
    "a default": (f"{RUN} python t.py ${{EPOCHS:-5}}", '--image image.sif t.py -- "${EPOCHS:-5}"'),
    "who I am": (f"{RUN} python t.py /data/`whoami`", "--image image.sif t.py -- /data/$USER"),
    "a job's variable": (
        f"{RUN} python t.py --out runs/$SLURM_JOB_ID --lr 1",
        "--image image.sif -- bash -c 'exec python t.py --out \"runs/$SLURM_JOB_ID\" --lr 1'",
    ),
    "the rank of the script's shell": (
        f"{RUN} python t.py $SLURM_NODEID",
        "--image image.sif t.py -- 0",
    ),
    "an exported value of the job": (
        f"export RUN=$SLURM_JOB_ID\n{RUN} python t.py",
        "--image image.sif -- bash -c 'export RUN=\"$SLURM_JOB_ID\"; exec python t.py'",
    ),
    "a text for each rank": (
        f"export A=1\n{RUN} bash -c 'export B=2; RANK=$SLURM_PROCID python t.py $A'",
        "--image image.sif --env A=1 --env B=2 t.py -- 1",
    ),
    "a text that prepares": (
        f"export A=1\n{RUN} bash -c 'source /ext3/env.sh; python t.py --n $SLURM_PROCID'",
        "--image image.sif --env A=1"
        " -- bash -c 'source /ext3/env.sh; python t.py --n $SLURM_PROCID'",
    ),
    "a text that prepares, in a folder": (
        "export ID=$SLURM_JOB_ID\n"
        "srun apptainer exec --pwd /w image.sif bash -c '. e/bin/activate; python t.py'",
        '--image image.sif -- bash -c \'export ID="$SLURM_JOB_ID"; cd /w &&'
        " . e/bin/activate; python t.py'",
    ),
    "a text in a here-document": (
        f'LR=0.1\n{RUN} bash <<EOF\nexport A=1\npython t.py $LR "b c" \\$SLURM_PROCID\nEOF',
        "--image image.sif --env A=1 -- bash -c"
        " 'exec python t.py 0.1 '\"'\"'b c'\"'\"' \"$SLURM_PROCID\"'",
    ),
    "the text as it stands of a here-document": (
        f"{RUN} bash -l << 'EOF'\ncd /w\npython t.py \"$HOME/a\"\nEOF",
        '--image image.sif -- bash -lc "cd /w && exec python t.py \\"$HOME/a\\""',
    ),
    "the address of the first node": (
        "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)\n"
        f"{RUN} python t.py --url tcp://$MASTER_ADDR:29500",
        "--image image.sif -- bash -c"
        " 'exec python t.py --url \"tcp://${MASTER_ADDR:-$(hostname)}:29500\"'",
    ),
    "a port that a command finds": (
        f"export MASTER_PORT=$(free_port)\n{RUN} python t.py --port $MASTER_PORT",
        "--image image.sif -- bash -c 'exec python t.py --port \"${MASTER_PORT:-29500}\"'",
    ),
    "a command by variable": (f"{RUN} $CMD", "--image image.sif -- $CMD"),
    "a text with values of the script": (
        f'LR=0.1\n{RUN} bash -c "source /env.sh && python t.py --lr $LR --d $WORK/a"',
        '--image image.sif -- bash -c "source /env.sh && python t.py --lr 0.1 --d $WORK/a"',
    ),
    "the folder of submission": (
        f"cd $SLURM_SUBMIT_DIR\n{RUN} python t.py $SLURM_SUBMIT_DIR/data",
        "--image image.sif t.py -- $PWD/data",
    ),
    "a path in the container": (
        "srun apptainer exec -B $PWD:/app image.sif python /app/t.py",
        "--image image.sif --bind $PWD:/app -- bash -c 'exec python /app/t.py'",
    ),
    "a folder in the container": (
        "srun apptainer exec --pwd /work image.sif python t.py",
        "--image image.sif -- bash -c 'cd /work && exec python t.py'",
    ),
    "binds": (
        "srun apptainer exec -B $PWD,/a:/b:ro,$HOME/c:/c image.sif python t.py",
        "--image image.sif --bind /a:/b:ro --bind $HOME/c:/c t.py",
    ),
    "binds by variable": (
        f"export APPTAINER_BIND=/a,/b:/c\n{RUN} python t.py",
        "--image image.sif --bind /a --bind /b:/c t.py",
    ),
    "variables for the container": (
        f"export SINGULARITYENV_A=1\n{RUN.replace('exec', 'exec --env B=2')} python t.py",
        "--image image.sif --env A=1 --env B=2 t.py",
    ),
    "another folder": (f"cd /data/me\n{RUN} python t.py", "--image image.sif t.py"),
    "options of srun": (
        "srun --mpi=pmix -l --cpu-bind=cores --hint=nomultithread apptainer exec image.sif"
        " python t.py",
        "--mpi pmix --cpu-bind cores --srun-arg=--hint=nomultithread --image image.sif t.py",
    ),
    "pyxis": (
        "srun --container-image=nvcr.io#nvidia/a:$T --container-mounts=/a:/b python t.py",
        "--image docker://nvcr.io/nvidia/a:$T --bind /a:/b t.py",
    ),
    "pyxis with an address": (
        "srun --container-image=docker://a/b --container-mount-home python t.py",
        "--image docker://a/b t.py",
    ),
    "shifter": (
        "srun shifter --image=team/image:1 --module=gpu,nccl-plugin python t.py",
        "--runtime shifter --image team/image:1 t.py",
    ),
    "an mpirun in the container": (
        "apptainer exec image.sif mpirun -np 8 -x A=1 -x B python t.py",
        "--image image.sif --env A=1 --env B t.py",
    ),
    "variables by mpirun's options": (
        "mpirun -np 8 --mca btl ^openib -genv A 1 apptainer exec image.sif python t.py",
        "--image image.sif --env 'OMPI_MCA_btl=^openib' --env A=1 t.py",
    ),
    "variables by MPICH's options": (
        "mpiexec -env A 1 -genv B=2 --env C=3,4 -n 8 python t.py",
        "--runtime none --env A=1 --env B=2 --env C=3,4 t.py",
    ),
    "an image by variable": ("srun apptainer exec $IMG python t.py", "--image $IMG t.py"),
    "docker": (
        "srun docker run --rm --gpus all --shm-size=8g -v /a:/b -w /b -e A=1 me.io/i:1 python t.py",
        "--image docker://me.io/i:1 --bind /a:/b --env A=1 -- bash -c 'cd /b && exec python t.py'",
    ),
    "docker's options that Apptainer does not know": (
        "srun docker run --env-file e --gpus '\"device=0\"' -v n:/n -v /n -v /a:/b:z -v /c:/d:ro,Z"
        " me.io/i python t.py",
        "--image docker://me.io/i --bind /a:/b --bind /c:/d:ro t.py",
    ),
    "an image that docker builds and pushes": (
        "docker build -t me.io/i:1 .\ndocker push me.io/i:1\nsrun docker run me.io/i:1 python t.py",
        "--image docker://me.io/i:1 t.py",
    ),
    "a text with escapes": (
        "A=$'x y'\nsrun python t.py --sep $'\\t' --a \"$A\" --b $'it\\'s é'",
        "--runtime none t.py -- --sep '\t' --a 'x y' --b 'it'\"'\"'s é'",
    ),
    "podman-hpc": (
        "srun podman-hpc run --rm --gpu -v /a:/b -w /b image:1 python t.py",
        "--runtime podman-hpc --image image:1 --bind /a:/b -- bash -c 'cd /b && exec python t.py'",
    ),
    "a container that a wrapper enters": (
        "export SINGULARITYENV_A=1\nsource /e/bin/activate\n"
        "srun ./wrap.sh singularity exec i.sif python t.py",
        "--runtime none --image /e --env SINGULARITYENV_A=1"
        " ./wrap.sh -- singularity exec i.sif python t.py",
    ),
    "a virtual environment": (
        "source /data/env/bin/activate\nsrun python t.py",
        "--runtime none --image /data/env t.py",
    ),
    "an environment by variable": (
        "source $ENV/bin/activate\nsrun python t.py",
        "--runtime none --image $ENV t.py",
    ),
    "a Python by its path": (
        "srun /data/env/bin/python t.py",
        "--runtime none --image /data/env t.py",
    ),
    "an agent that a command finds": (
        "srun python -u $(which torchrun) --nproc_per_node 2 t.py",
        "--nodes 2 --ntasks-per-node 2 --launcher torchrun --runtime none t.py",
    ),
    "an agent by its path": (
        "srun /data/env/bin/python -m torch.distributed.run --nproc_per_node 2 t.py",
        "--nodes 2 --ntasks-per-node 2 --launcher torchrun --runtime none --image /data/env t.py",
    ),
    "a Python below the current folder": (
        "python3 --version\nsrun venv/bin/python t.py",
        "--runtime none --image ./venv t.py",
    ),
    "the system's Python": (
        "ml torch\nsrun /usr/bin/python3 t.py",
        "--runtime none --module torch t.py",
    ),
    "a function for modules": (
        "module () { eval `modulecmd bash $*`; }\nmodule load torch\nsrun python t.py",
        "--runtime none --module torch t.py",
    ),
    "modules": (
        "ml --force purge\nmodule load a/1 b\nml c\nsource /e/bin/activate\nsrun python t.py",
        "--runtime none --image /e --module-purge --module a/1 --module b --module c t.py",
    ),
    "an assigned default": (
        f': "${{CONF:=a.yml}}"\nB=/x\n{RUN} python t.py $CONF ${{OUT:-$B/out}} ${{B:+yes}}',
        '--image image.sif t.py -- "${CONF:-a.yml}" "${OUT:-/x/out}" yes',
    ),
    "a module without a name": (f"{RUN} python -m", "--image image.sif -- python -m"),
    "an empty list": (f'run() {{ {RUN} python t.py "$@"; }}\nrun', "--image image.sif t.py"),
    "folders of modules": (
        f"export PYTHONPATH=/x/src:$PYTHONPATH\n{RUN} python t.py",
        "--image image.sif --env PYTHONPATH=/x/src t.py",
    ),
    "threads of one's own": (
        f"export OMP_NUM_THREADS=16\n{RUN} python t.py",
        "--image image.sif --env OMP_NUM_THREADS=16 t.py",
    ),
    "a here-document that misleads the grammar": (
        "cat > $A/x.sh << EOF\ncd ${A}\n |& tee $A/y-\\$R.log\nif [ \\$R ]; then\nEOF\n"
        f"chmod +x $A/x.sh\n{RUN} python t.py",
        "--image image.sif t.py",
    ),
    "a text that goes on after the training": (
        f"{RUN} bash -c 'python t.py; cp a b'",
        "--image image.sif -- bash -c 'python t.py; cp a b'",
    ),
    "a container of an earlier step": (
        "srun --container-image=a:1 --container-name=c true\nsrun --container-name=c python t.py",
        "--image docker://a:1 t.py",
    ),
    "a program beside the training": (
        f"python -m dashboard 8000 &\n{RUN} python t.py",
        "--image image.sif t.py",
    ),
    "uv": ("srun uv run --no-sync python t.py", "--runtime none --image ./.venv t.py"),
    "conda run": ("srun conda run -p /e python t.py", "--runtime none --image /e t.py"),
    "the Python of a module": ("ml torch\nsrun python t.py", "--runtime none --module torch t.py"),
    "what a job always has": (
        f"D=${{SLURM_SUBMIT_DIR:-$(pwd)}}\n{RUN} python t.py ${{SLURM_NNODES:-1}} $D",
        "--image image.sif t.py -- 2 $PWD",
    ),
    "a branch that changes nothing": (
        f"export A=1\nif x; then export A=1; fi\n{RUN} python t.py",
        "--image image.sif --env A=1 t.py",
    ),
    "branches of which the script tells the one": (
        'M=big_cased\nif [[ $M =~ "small" ]]; then B=1\nelif [[ $M == *"cased" ]]; then B=2\n'
        f"elif x; then B=3; else B=4; fi\n{RUN} python t.py $B",
        "--image image.sif t.py -- 2",
    ),
    "a star in quotes": (
        'A=ab\nif [[ $A == "*" ]]; then B=1; else B=2; fi\n'
        'if [[ $A == "a"* ]]; then C=3; fi\nsrun python t.py $C',
        "--runtime none t.py -- 3",
    ),
    "a library before all others": (
        "LD_PRELOAD=/x/m.so srun python t.py",
        "--runtime none --env LD_PRELOAD=/x/m.so t.py",
    ),
    "a function": (
        f'run() {{ {RUN} python "$1" --n "$2"; }}\nrun t.py 3',
        "--image image.sif t.py -- --n 3",
    ),
    "a limit of time": (f"timeout 3600 {RUN} python t.py", "--image image.sif t.py"),
    "arguments that a function shifts": (
        f"run() {{ shift; {RUN} python t.py $1; }}\nrun a b",
        "--image image.sif t.py -- b",
    ),
    "a text within a text": (
        f"{RUN} bash -c \"bash -lc 'python t.py --rank $R'\"",
        "--image image.sif t.py -- --rank $R",
    ),
    "quotes within a text": (
        f"{RUN} bash -c \"python t.py --name '$R x'\"",
        '--image image.sif t.py -- --name "$R x"',
    ),
    "arguments of a text": (
        f"{RUN} bash -c 'source e; python t.py $1' _ 5",
        "--image image.sif -- bash -c 'source e; python t.py $1' _ 5",
    ),
    "a flag with a number": (
        "srun -lK1 apptainer exec image.sif python t.py",
        "--image image.sif t.py",
    ),
    "a training that is tried again": (
        f"until {RUN} python t.py; do sleep 5; done",
        "--image image.sif t.py",
    ),
    "a file that a loop reads": (
        f"while read -r lr; do {RUN} python t.py --lr $lr; done < rates.txt",
        "--image image.sif t.py -- --lr '<$lr>'",
    ),
    "Python in a variable": (
        "srun ${PYTHON_BIN:-python3} t.py",
        '--runtime none -- "${PYTHON_BIN:-python3}" t.py',
    ),
    "an image in a variable that may be empty": (
        "srun apptainer exec ${SIF:-} python t.py",
        '--image "${SIF:-}" t.py',
    ),
    "such an image before a shell": (
        "srun apptainer exec \"${SIF:-}\" bash -c 'source e; python t.py'",
        "--image \"${SIF:-}\" -- bash -c 'source e; python t.py'",
    ),
    "options in such a variable": (
        "srun apptainer exec ${OPTIONS:-} $SIF python t.py",
        "--image $SIF t.py",
    ),
    "what waits for a file": (
        "while bash -c 'python a.py'; do b; done; until python a.py; do b; done\n"
        f"{RUN} python t.py",
        "--image image.sif t.py",
    ),
    "what stands before": (
        f"time -p {RUN} env A=1 nice python t.py",
        "--image image.sif --env A=1 t.py",
    ),
}


@pytest.mark.parametrize(("text", "expected"), LINES.values(), ids=LINES)
def test_a_step(text: str, expected: str) -> None:
    made = line(HEAD + text)
    assert made.replace(f"{IN_HEAD} ", "").removeprefix("cd /data/me && runner launch ") == expected
    is_taken(made)


def is_taken(made: str) -> None:
    """Check that `runner launch` takes the line."""
    words = shlex.split(made.rpartition("runner launch ")[2])
    context = launch_command.make_context("launch", words, resilient_parsing=True)
    assert context.params["trainer"]


# Whole scripts: directives and launchers make the counts.
WHOLE = {
    "ranks of an agent that a condition chooses": (
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node 1\n"
        'if x; then A="--nproc_per_node=8 --tee 3"; else A="--nproc_per_node=4"; fi\n'
        "srun torchrun --nnodes=2 $A t.py",
        "--nodes 2 --ntasks-per-node '<$A>' --launcher torchrun --runtime none t.py",
    ),
    "ranks of mpirun that a condition chooses": (
        '#SBATCH -N 2\nif x; then L="-n 8"; else L="-n 4"; fi\nmpirun $L python t.py',
        "--nodes 2 --ntasks '<$L>' --runtime none t.py",
    ),
    "ranks in all and of a node that a condition chooses": (
        '#SBATCH -N 2\nL="-n 8 -N 4"\nif x; then L="-n 4 -N 2"; fi\nmpirun $L python t.py',
        "--nodes 2 --ntasks-per-node '<$L>' --runtime none t.py",
    ),
    "tasks and nodes of srun that a condition chooses": (
        '#SBATCH -N 2\nif x; then A="-N 1 -n 4 -K"; else A="-n 8"; fi\nsrun $A python t.py',
        "--nodes '<$A>' --ntasks '<$A>' --runtime none t.py",
    ),
    "fewer ranks of mpirun than the job's nodes hold": (
        "#PBS -l select=4\nmpiexec -np 8 -ppn 4 python t.py",
        "--scheduler pbs --ntasks-per-node 4 --nodes 2 --runtime none t.py",
    ),
    "fewer ranks of mpirun than nodes": (
        "#SBATCH -N 3\nmpirun -np 1 python t.py",
        "--ntasks 1 --nodes 1 --runtime none t.py",
    ),
    "what pbsdsh starts on each node": (
        "#PBS -l select=2:ncpus=8:ngpus=2\nexport A=1\npbsdsh -- python t.py $HOSTNAME",
        "--scheduler pbs --gpus-per-node 2 --nodes 2 --ntasks-per-node 1 --cpus-per-task 8"
        " --runtime none -- bash -c 'exec python t.py \"${MASTER_ADDR:-$(hostname)}\"'",
    ),
    "an instance of an image": (
        "#SBATCH -N 1\napptainer instance start -B /a:/b i.sif one\n"
        "apptainer exec instance://one python t.py",
        "--nodes 1 --ntasks 1 --image i.sif --bind /a:/b t.py",
    ),
    "a training that a function starts": (
        '#SBATCH -N 2\n#SBATCH --ntasks-per-node 1\nrun() {\n"$@"\n}\n'
        "module load cuda\nsource /e/bin/activate\nrun srun python t.py",
        "--nodes 2 --ntasks-per-node 1 --runtime none --image /e --module cuda t.py",
    ),
    "one agent for each node, by mpirun": (
        "#PBS -l select=2:ngpus=4\ni=0\nfor h in $(sort -u $PBS_NODEFILE); do\n"
        "mpirun -np 1 --host $h torchrun --nnodes=2 --node_rank=$i --nproc_per_node=4 t.py &\n"
        "i=$((i+1))\ndone\nwait",
        "--scheduler pbs --gpus-per-node 4 --nodes 2 --ntasks-per-node 4 --launcher torchrun"
        " --runtime none t.py",
    ),
    "a container of docker that the script starts": (
        "#SBATCH -N 1\ndocker run -d --name one -e A=1 -v /a:/b i:1 sleep inf\n"
        "docker exec -e B=2 one python t.py",
        "--nodes 1 --ntasks 1 --image docker://i:1 --bind /a:/b --env A=1 --env B=2 t.py",
    ),
    "the nodes of Cobalt's file": (
        "#COBALT -n 2\nN=$(cat $COBALT_NODEFILE | wc -l)\nmpirun -n $((N*8)) python t.py",
        "--scheduler cobalt --nodes 2 --ntasks 16 --runtime none t.py",
    ),
    "the lines of PBS's file, by sed": (
        "#PBS -l select=2\nN=$(uniq $PBS_NODEFILE | sed -n $=)\nmpiexec -n $((N*4)) python t.py",
        "--scheduler pbs --nodes 2 --ntasks 8 --runtime none t.py",
    ),
    "a place for options among those of a directive": (
        "#SBATCH <SLURM OPTIONS> --nodes=2 --ntasks-per-node=4\nsrun python t.py",
        "--nodes 2 --ntasks-per-node 4 --runtime none t.py",
    ),
    "ranks of mpirun that fill no node": (
        "#SBATCH -N 4\nmpiexec -np 6 -ppn 4 python t.py",
        "--nodes 2 --ntasks 6 --runtime none t.py",
    ),
    "an agent in an environment that the container's text enters": (
        "#SBATCH -N 2\nE=/e\nsrun apptainer exec i.sif bash -c"
        ' "\\$WITH_ENV; source $E/bin/activate && torchrun --nproc_per_node 4 t.py --d $W/a"',
        '--nodes 2 --ntasks-per-node 4 --image i.sif -- bash -c "\\$WITH_ENV;'
        ' source /e/bin/activate && exec python t.py --d \\"$W/a\\""',
    ),
    "an agent in a folder of the container": (
        "srun apptainer exec i.sif bash -c 'cd /w; torchrun --nproc_per_node 2 t.py'",
        "--ntasks-per-node 2 --image i.sif -- bash -c 'cd /w && exec python t.py'",
    ),
    "an agent for each of a job's nodes, which is one": (
        "#SBATCH -N 1\n#SBATCH --ntasks=1\nfor ((i=0; i<$SLURM_NNODES; i++)); do srun -N1 -n1 -w"
        " ${nodes[$i]} torchrun --nnodes=$SLURM_NNODES --node_rank=$i --nproc_per_node=2 t.py &\n"
        "done\nwait",
        "--nodes 1 --ntasks-per-node 2 --launcher torchrun --runtime none t.py",
    ),
    "a list of several options": (
        "#SBATCH --array=0-1\nL=('--a 1' '--b 2')\nsrun python t.py ${L[$SLURM_ARRAY_TASK_ID]}",
        "--array 0-1 --runtime none -- bash -c 'L=('\"'\"'--a 1'\"'\"' '\"'\"'--b 2'\"'\"');"
        " exec python t.py ${L[$SLURM_ARRAY_TASK_ID]}'",
    ),
    "aprun's own options": (
        "aprun -n 8 -N 4 -S 2 -b -cc depth python t.py",
        "--ntasks-per-node 4 --nodes 2 --runtime none t.py",
    ),
    "a work folder of the container": (
        "srun apptainer exec --workdir /w i.sif python t.py",
        "--image i.sif --apptainer-arg=--workdir=/w t.py",
    ),
    "an assignment in quotes": (
        "export 'A=b:1' \"C=d e\"\nsrun python t.py",
        "--runtime none --env A=b:1 --env 'C=d e' t.py",
    ),
    "a pattern behind an option's sign": (
        "srun python t.py --in=/d/*.rec --out=$W/*.x",
        """--runtime none t.py -- '--in=/d/*.rec' "--out=$W/*.x\"""",
    ),
    "a step of fewer tasks than nodes": (
        "#SBATCH -N 6\nmpirun --version\nsrun -n 2 python t.py",
        "--nodes 2 --ntasks 2 --runtime none t.py",
    ),
    "an agent without a number": (
        "#SBATCH -N 2\ndeepspeed --hostfile h t.py",
        "--nodes 2 --ntasks-per-node '<GPUs of a node>' --launcher deepspeed --runtime none t.py",
    ),
    "accelerate of an environment in an image": (
        "srun apptainer exec i.sif bash -c 'source /e/bin/activate; accelerate launch t.py'",
        "--launcher accelerate --image i.sif --env PREPEND_PATH=/e/bin t.py",
    ),
    "an agent in a folder": (
        "#SBATCH --chdir=/d\n#SBATCH --exclusive=user\n"
        "srun bash -c 'cd /w; torchrun --nproc_per_node 2 t.py'",
        "cd /w && runner launch --sbatch-arg=--exclusive=user --ntasks-per-node 2"
        " --launcher torchrun --runtime none t.py",
    ),
    "a function that bash -c gets": (
        "#SBATCH -N 2\nf() {\n  export A=1\n  torchrun --nproc_per_node 4 t.py $1\n}\n"
        "export -f f\nsrun bash -c 'f x'",
        "--nodes 2 --ntasks-per-node 4 --launcher torchrun --runtime none --env A=1 t.py -- x",
    ),
    "a function by its keyword that bash -c gets": (
        "function f {\n  torchrun --nproc_per_node 4 t.py $(date)\n}\nexport -f f\nsrun bash -c f",
        "--ntasks-per-node 4 --launcher torchrun --runtime none t.py -- '<$(date)>'",
    ),
    "what prints nothing, or too much": (
        "srun python t.py $(dirname) $(seq 1 99999999999)",
        "--runtime none t.py -- '<$(dirname)>' '<$(seq 1 99999999999)>'",
    ),
    "a name in quotes is exported as it is": (
        'A=1\nexport "A" ""\nsrun python t.py',
        "--runtime none --env A=1 t.py",
    ),
    "a list item by item": (
        "#SBATCH --array=0-1\nL[0]=a\nL[1]=b\nsrun python t.py --lr ${L[$SLURM_ARRAY_TASK_ID]}",
        "--runtime none --sweep lr=a,b t.py",
    ),
    "fewer tasks than nodes": (
        "#SBATCH --nodes=4 --ntasks=2 --gpus-per-task=1\nsrun torchrun --nproc_per_node=1 t.py",
        "--gpus-per-node 1 --nodes 2 --ntasks-per-node 1 --launcher torchrun --runtime none t.py",
    ),
    "tasks by their GPUs": (
        "#SBATCH --gpus=8 --gpus-per-task=1\nhorovodrun -np $SLURM_NTASKS python t.py",
        "--gpus 8 --gpus-per-task 1 --ntasks 8 --runtime none t.py",
    ),
    "an agent of an environment in an image": (
        "srun apptainer exec i.sif /e/bin/python -m torch.distributed.run --nproc_per_node 2 t.py",
        "--ntasks-per-node 2 --image i.sif -- bash -c 'exec /e/bin/python t.py'",
    ),
    "an agent with the job's number": (
        "srun torchrun --nproc_per_node=2 t.py --run $SLURM_JOB_ID",
        "--ntasks-per-node 2 --runtime none -- bash -c 'exec python t.py --run \"$SLURM_JOB_ID\"'",
    ),
    "GPUs of a step": (
        "#SBATCH --gres=gpu:4,nvme:1\nsrun -n 2 --gpus-per-node=2 python t.py",
        "--gres nvme:1 --gpus-per-node 2 --ntasks 2 --runtime none t.py",
    ),
    "GPUs of a step in two ways": (
        "#SBATCH --gpus=8\nsrun -N 2 -n 4 --gpus=4 --gpus-per-node=2 python t.py",
        "--gpus 4 --gpus-per-node 2 --nodes 2 --ntasks 4 --runtime none t.py",
    ),
    "GPUs of a step by its gres": (
        "#SBATCH --gpus-per-node=4\nsrun -n 2 --gres=gpu:2 python t.py",
        "--gres gpu:2 --ntasks 2 --runtime none t.py",
    ),
    "GPUs of a step with the type of the job's": (
        "#SBATCH --gres=gpu:a100:4\nsrun -n 2 --gres=gpu:2 python t.py",
        "--gres gpu:a100:2 --ntasks 2 --runtime none t.py",
    ),
    "GPUs of a step in another way with the type of the job's": (
        "#SBATCH --gpus-per-node=h100:4\nsrun -n 2 --gpus=4 python t.py",
        "--gpus h100:4 --ntasks 2 --runtime none t.py",
    ),
    "tasks for each GPU": (
        "#SBATCH -N 2\n#SBATCH --gres=gpu:4\n#SBATCH --ntasks-per-gpu=2\nsrun python t.py",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 8 --runtime none t.py",
    ),
    "a program that passes a command on": (
        "#SBATCH -N 1\nnumactl --membind=0-3 python t.py",
        "--nodes 1 --ntasks 1 --runtime none -- bash -c 'exec numactl --membind=0-3 python t.py'",
    ),
    "a condition that the script decides": (
        "A=1\nif [[ $A == 1 ]]; then module load x\nelse module load y; fi\n"
        "if [ $A -ne 1 ]; then B=2; else B=3; fi\nsrun python t.py $B",
        "--runtime none --module x t.py -- 3",
    ),
    "a comment in a list": (
        "RUN=(srun apptainer exec # --nv\n i.sif)\n${RUN[@]} python t.py",
        "--image i.sif t.py",
    ),
    "GPUs by their variable": (
        "#SBATCH --gres=gpu:2\n"
        "torchrun --nproc_per_node=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l) t.py",
        "--gres gpu:2 --ntasks-per-node 2 --launcher torchrun --runtime none t.py",
    ),
    "a part of a path by a command": (
        "Z=/d/a.zip\nsrun python t.py $(basename $Z) $(dirname $Z)",
        "--runtime none t.py -- a.zip /d",
    ),
    "modules that are unloaded again": (
        "module load a/1 b c\nml unload a\nml -b\nmodule purge\nmodule load d e\n"
        "module unload e\nsrun python t.py",
        "--runtime none --module-purge --module d t.py",
    ),
    "a number of the array's task": (
        "N=$((SLURM_ARRAY_TASK_ID - 100))\nsrun python t.py $N",
        "--runtime none -- bash -c 'exec python t.py \"$((SLURM_ARRAY_TASK_ID - 100))\"'",
    ),
    "a place that the user fills in": (
        "D=/proj/<mydir>/x\nsrun python t.py $D",
        "--runtime none t.py -- '/proj/<mydir>/x'",
    ),
    "folders behind those of PATH": (
        "export PATH=$PATH:/x/bin\nml torch\nsrun python t.py",
        "--runtime none --module torch t.py",
    ),
    "a text by read": (
        "read -r -d '' CMD <<EOF\nsource e && python t.py\nEOF\n"
        'srun apptainer exec i.sif bash -c "$CMD"',
        "--image i.sif -- bash -c 'source e && python t.py'",
    ),
    "a Python by its version": (
        "module use -a /m\nsrun python3.9 t.py",
        "--runtime none --module-use /m python3.9 -- t.py",
    ),
    "an old agent in an environment": (
        "srun apptainer exec i.sif bash -c 'source e; python -m torch.distributed.launch"
        " --nproc_per_node 2 t.py'",
        "--ntasks-per-node 2 --image i.sif -- bash -c 'source e; exec python t.py'",
    ),
    "a module by an argument": (
        "module load x $1\nsrun python t.py",
        "--runtime none --module x t.py",
    ),
    "two variables without braces": (
        "#SBATCH -N1\nsrun apptainer exec -B $A,$B:/b,$C:$D i.sif python t.py",
        "--nodes 1 --image i.sif --bind $A --bind $B:/b --bind $C:$D t.py",
    ),
    "a directive without a blank": (
        "#SBATCH--nodes=1\nsrun apptainer exec i.sif python t.py",
        "--nodes 1 --image i.sif t.py",
    ),
    "names in all forms": (
        "#!/bin/bash -l\n#SBATCH -J x -p gpu --time=1:00 -A me --mem 4G\n"
        "#SBATCH --gres=gpu:a100:2\n"
        "#SBATCH --mail-type=END --exclusive --signal=B:TERM@60\n"
        "srun -n 2 -c 4 apptainer exec i.sif python t.py",
        "--job-name x --partition gpu --time 1:00 --account me --mem 4G --gres gpu:a100:2"
        " --sbatch-arg=--mail-type=END --exclusive --signal TERM@60 --ntasks 2 --cpus-per-task 4"
        " --image i.sif t.py",
    ),
    "one task by default": (
        "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\nsrun apptainer exec --nv i.sif python t.py",
        "--gpus-per-node 4 --nodes 2 --ntasks-per-node 1 --image i.sif t.py",
    ),
    "no launcher": (
        "#SBATCH --ntasks=4\n#SBATCH --gres=gpu:2\napptainer exec --nv i.sif python t.py",
        "--gres gpu:2 --nodes 1 --ntasks 1 --cpus-per-task 4 --image i.sif t.py",
    ),
    "torchrun": (
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=32\n"
        "#SBATCH --gres=gpu:4\n"
        "srun apptainer exec --nv i.sif python -m torch.distributed.run"
        " --nnodes 2 --nproc_per_node 4 t.py",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 4 --cpus-per-task 8 --launcher torchrun"
        " --image i.sif t.py",
    ),
    "torchrun, one rank for each GPU": (
        "#SBATCH -N 1\n#SBATCH --gpus-per-node=4\n"
        "apptainer exec --nv i.sif torchrun --standalone --nproc-per-node=gpu -m pkg.t --a",
        "--gpus-per-node 4 --nodes 1 --ntasks-per-node 4 --launcher torchrun --image i.sif"
        " -- python -m pkg.t --a",
    ),
    "accelerate": (
        "#SBATCH -N 2\n#SBATCH --gpus-per-node=2\nsrun apptainer exec --nv i.sif accelerate launch"
        " --num_processes=4 --num_machines=2 --machine_rank=$SLURM_NODEID t.py",
        "--gpus-per-node 2 --nodes 2 --ntasks-per-node 2 --launcher accelerate --image i.sif t.py",
    ),
    "torchrun in a text with the job's numbers": (
        "#SBATCH -N 2\n#SBATCH --gres=gpu:4\n"
        "srun -N $SLURM_NNODES apptainer exec --nv i.sif bash -c"
        " 'torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE t.py'",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 4 --launcher torchrun --image i.sif t.py",
    ),
    "torchrun of Juelich": (
        "#SBATCH -N 2\n#SBATCH --gres=gpu:4\nsource /e/bin/activate\n"
        "srun bash -c 'torchrun_jsc --rdzv_conf=is_host=$(((SLURM_NODEID)) && echo 0 || echo 1)"
        " --nproc_per_node=$(((2 + 2) * 1)) t.py'",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 4 --launcher torchrun --runtime none --image /e"
        " t.py",
    ),
    "a container of the directives": (
        "#SBATCH -N 2\n#SBATCH --container-image=a:1\n#SBATCH --container-mounts=/a:/b\n"
        "#SBATCH --container-workdir=/b\n#SBATCH --container-writable\nsrun python t.py",
        "--nodes 2 --image docker://a:1 --bind /a:/b -- bash -c 'cd /b && exec python t.py'",
    ),
    "deepspeed with the job's hosts": (
        "#SBATCH -N 2\ndeepspeed --hostfile hosts --num_gpus 4 t.py",
        "--nodes 2 --ntasks-per-node 4 --launcher deepspeed --runtime none t.py",
    ),
    "tasks are the CPUs of an agent": (
        "#SBATCH -N 1\n#SBATCH -n 12\ntorchrun --nproc_per_node=4 t.py",
        "--nodes 1 --ntasks-per-node 4 --cpus-per-task 3 --launcher torchrun --runtime none t.py",
    ),
    "a chunk of an agent": (
        "#PBS -l select=1:ncpus=10:ngpus=4\naccelerate launch t.py",
        "--scheduler pbs --gpus-per-node 4 --nodes 1 --ntasks-per-node 4 --cpus-per-task 2"
        " --launcher accelerate --runtime none t.py",
    ),
    "nodes that the tasks fill": (
        "#SBATCH -n 8\n#SBATCH --ntasks-per-node=4\nsrun -N $SLURM_NNODES python t.py",
        "--nodes 2 --ntasks 8 --ntasks-per-node 4 --runtime none t.py",
    ),
    "GPUs that are counted": (
        "#SBATCH -N 1\n#SBATCH --gres=gpu:2\n"
        "torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) t.py",
        "--gres gpu:2 --nodes 1 --ntasks-per-node 2 --launcher torchrun --runtime none t.py",
    ),
    "modules that bring the Python": (
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=2\nmodule use /apps/modules\n"
        "module load PyTorch/2.1 OpenMPI/4.1\nsrun python t.py",
        "--nodes 2 --ntasks-per-node 2 --runtime none --module-use /apps/modules"
        " --module PyTorch/2.1 --module OpenMPI/4.1 t.py",
    ),
    "numbers by let": (
        '#PBS -l select=2:system=polaris\nN=`wc -l < $PBS_NODEFILE`\nlet R=${N}*4 "B = R * 2"\n'
        "mpiexec -n $R -ppn 4 --line-buffer apptainer exec i.sif python t.py --batch $B",
        "--site polaris --scheduler pbs --nodes 2 --ntasks-per-node 4 --image i.sif"
        " t.py -- --batch 16",
    ),
    "the job's number in a text": (
        '#SBATCH -n 2\nsrun apptainer exec i.sif bash -c "nvidia-smi | tee gpus.txt;'
        ' python t.py --out out/$SLURM_JOB_ID"',
        "--ntasks 2 --image i.sif"
        " -- bash -c 'nvidia-smi | tee gpus.txt; python t.py --out out/$SLURM_JOB_ID'",
    ),
    "modules of one's own": (
        "#SBATCH -n 2\nexport MODULEPATH=$MODULEPATH:$HOME/m\nmodule load a\nsrun python t.py",
        "--ntasks 2 --runtime none --module-use $HOME/m --module a t.py",
    ),
    "folders and back": (
        "#SBATCH -n 2\ncd a\ncd ..\nsrun python t.py {1} -o x_%q{RANK}",
        "--ntasks 2 --runtime none t.py -- '{1}' -o 'x_%q{RANK}'",
    ),
    "modules of another branch": (
        "#SBATCH -n 2\nif [ -f a ]; then\nmodule load a\nsrun dask-scheduler &\nelse\n"
        "module load b\nsrun python t.py\nfi",
        "--ntasks 2 --runtime none --module b t.py",
    ),
    "CPUs of all ranks of horovodrun": (
        "#SBATCH -N 1\n#SBATCH -c 8\nhorovodrun -np 4 python t.py",
        "--nodes 1 --ntasks 4 --cpus-per-task 2 --runtime none t.py",
    ),
    "nodes by name": (
        "#SBATCH --nodelist=a,b\n#SBATCH --ntasks-per-node=2\nsrun python t.py",
        "--nodelist a,b --nodes 2 --ntasks-per-node 2 --runtime none t.py",
    ),
    "a variable that each job has": (
        '#SBATCH -n 2\nif [ -z "$SLURM_JOB_ID" ]; then N=1; fi\nsrun python t.py --n $N',
        "--ntasks 2 --runtime none t.py -- --n $N",
    ),
    "an agent that is told of the job's nodes": (
        "#SBATCH -N 2\ntorchrun --nnodes=2 --nproc_per_node=4 t.py",
        "--nodes 2 --ntasks-per-node 4 --launcher torchrun --runtime none t.py",
    ),
    "a flag of a site's podman-hpc": (
        "#SBATCH -n 2\nsrun podman-hpc run --nccl-cu13 --rm --gpu i:1 python t.py",
        "--ntasks 2 --runtime podman-hpc --image i:1 t.py",
    ),
    "deepspeed": (
        "#SBATCH -N 1\n#SBATCH --gpus-per-node=2\napptainer exec --nv i.sif deepspeed --num_gpus=2"
        " t.py --deepspeed c.json",
        "--gpus-per-node 2 --nodes 1 --ntasks-per-node 2 --launcher deepspeed --image i.sif"
        " t.py -- --deepspeed c.json",
    ),
    "mpirun of the host": (
        "#SBATCH -N 2\n#SBATCH -n 4\nmodule load openmpi\n"
        "mpirun -np 4 --bind-to none -x NCCL_DEBUG=INFO apptainer exec i.sif python t.py",
        "--nodes 2 --ntasks 4 --image i.sif --env NCCL_DEBUG=INFO --module openmpi t.py",
    ),
    "horovodrun": (
        "#SBATCH -N 1\n#SBATCH -n 2\napptainer exec i.sif horovodrun -np 2 --gloo"
        " --timeline-filename t.json --autotune python t.py",
        "--nodes 1 --ntasks 2 --image i.sif --controller gloo --timeline-filename t.json"
        " --autotune t.py",
    ),
    "a sweep": (
        "#SBATCH --array=0-2%2\nR=(0.1 0.2 0.3)\n"
        "srun apptainer exec i.sif python t.py --lr=${R[$SLURM_ARRAY_TASK_ID]} --n 1",
        "--image i.sif --array %2 --sweep lr=0.1,0.2,0.3 t.py -- --n 1",
    ),
    "an array that is no sweep": (
        "#SBATCH --array=1-2\nR=(a b c)\nS=(1 2 3)\nsrun apptainer exec i.sif python t.py"
        " --r ${R[$SLURM_ARRAY_TASK_ID]} --s ${S[$SLURM_ARRAY_TASK_ID]}",
        "--array 1-2 --image i.sif -- bash -c 'R=(a b c); S=(1 2 3); exec python t.py"
        ' --r "${R[$SLURM_ARRAY_TASK_ID]}" --s "${S[$SLURM_ARRAY_TASK_ID]}"\'',
    ),
    "PBS": (
        "#!/bin/sh\n#PBS -A me\n#PBS -l select=2:ncpus=64:ngpus=4:mpiprocs=4:system=polaris\n"
        "#PBS -l walltime=1:00:00,filesystems=home:eagle\n#PBS -q debug\n#PBS -j oe\n"
        "cd $PBS_O_WORKDIR\nN=`wc -l < $PBS_NODEFILE`\n"
        "mpiexec -n $N --ppn 4 -d 8 apptainer exec --nv i.sif python t.py",
        "--site polaris --scheduler pbs --account me --gpus-per-node 4 --time 1:00:00"
        " --sbatch-arg=-lfilesystems=home:eagle --partition debug --nodes 2 --ntasks-per-node 4"
        " --cpus-per-task 8 --image i.sif t.py",
    ),
    "one process with PBS's CPUs": (
        "#PBS -l select=1:ncpus=2:mpiprocs=10\nsource /e/bin/activate\npython t.py\ndeactivate",
        "--scheduler pbs --nodes 1 --ntasks 1 --cpus-per-task 2 --runtime none --image /e t.py",
    ),
    "PBS counts its nodes": (
        "#PBS -l select=3:ncpus=4\n#PBS -N x\nN=$(< $PBS_NODEFILE wc -l)\n"
        "mpiexec -n $((N * 2)) --ppn 2 apptainer exec i.sif python t.py $N",
        "--scheduler pbs --job-name x --nodes 3 --ntasks-per-node 2 --cpus-per-task 2"
        " --image i.sif t.py -- 3",
    ),
    "PBS with the resources of the whole job": (
        "#PBS -l ncpus=24,ngpus=2\n#PBS -l wd\nmpirun -np 2 apptainer exec i.sif python t.py",
        "--scheduler pbs --gpus-per-node 2 --sbatch-arg=-lwd --cpus-per-task 12 --image i.sif t.py",
    ),
    "tasks whose nodes the step's own count tells": (
        "#SBATCH --ntasks=16 --ntasks-per-node=8\nsrun --ntasks-per-node=8 python t.py",
        "--nodes 2 --ntasks-per-node 8 --runtime none t.py",
    ),
    "Torque's GPUs of each node": (
        "#PBS -l nodes=2:ppn=8:gpus=4\nmpirun -np 16 python t.py",
        "--scheduler pbs --gpus-per-node 4 --nodes 2 --ntasks-per-node 8 --runtime none t.py",
    ),
    "an agent for each node": (
        "#SBATCH -N 2\n#SBATCH --gres=gpu:4\nnodes=($(scontrol show hostnames))\n"
        "for i in $(seq 0 $((SLURM_NNODES - 1))); do\n"
        "srun -lN1 -n1 -w ${nodes[$i]} apptainer exec --nv i.sif"
        " torchrun --nnodes=2 --node_rank=$i --nproc_per_node=4 t.py &\ndone\nwait",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 4 --launcher torchrun --image i.sif t.py",
    ),
    "an agent for each node by ssh": (
        "#SBATCH -N 2\n#SBATCH --gres=gpu:4\ni=0\nfor h in $(scontrol show hostnames); do\n"
        'ssh -q $h "cd $PWD; torchrun --nnodes=2 --node_rank=$i --nproc_per_node=4 t.py" &\n'
        "i=$((i + 1))\ndone\nwait",
        "--gres gpu:4 --nodes 2 --ntasks-per-node 4 --launcher torchrun --runtime none t.py",
    ),
    "a process for each node by ssh": (
        "#PBS -l select=2\nfor h in $(uniq $PBS_NODEFILE); do ssh $h python t.py & done; wait",
        "--scheduler pbs --nodes 2 --ntasks-per-node 1 --runtime none t.py",
    ),
    "a process for each node with its CPUs, and without what ssh does not pass on": (
        "#SBATCH -N 2\n#SBATCH --ntasks-per-node=2\n#SBATCH --cpus-per-task=8\n"
        "#SBATCH --chdir=/d\n"
        "cd /x\nexport A=1 PATH=/q:$PATH\nmodule load m\nconda activate e\n"
        "for h in $(scontrol show hostnames); do ssh $h python t.py & done; wait",
        "--nodes 2 --ntasks-per-node 1 --cpus-per-task 16 --runtime none t.py",
    ),
    "a rank by hand for each node": (
        "#SBATCH --ntasks=4\n#SBATCH --ntasks-per-node=2\nn=0\n"
        "for h in $(scontrol show hostnames); do\n"
        'ssh $h "cd /w; RANK=$n A=1 python t.py" & ((n++))\ndone',
        "--nodes 2 --ntasks-per-node 1 --cpus-per-task 2 --runtime none --env A=1"
        " -- bash -c 'cd /w && exec python t.py'",
    ),
    "a container for each node by ssh": (
        "#SBATCH -N 2\nfor i in 0 1; do ssh ${SLURM_JOB_NODELIST[$i]} apptainer exec i.sif a; done",
        "--nodes 2 --ntasks-per-node 1 --image i.sif -- bash -c 'exec a'",
    ),
    "an agent for each node that the tasks fill": (
        "#SBATCH --ntasks=4 --ntasks-per-node=2 --gpus-per-node=2\n"
        "for ((i=0; i<SLURM_NNODES; i++)); do\nsrun -n1 -N1 -w ${nodes[i]} --gpus=2"
        " torchrun --nnodes=2 --node_rank=$i --nproc_per_node=2 t.py &\ndone\nwait",
        "--gpus-per-node 2 --nodes 2 --ntasks-per-node 2 --launcher torchrun --runtime none t.py",
    ),
    "one rank a node by mpirun alone": (
        "#SBATCH -N 2 --gpus-per-node=4\nmpirun python t.py",
        "--gpus-per-node 4 --nodes 2 --ntasks-per-node 1 --runtime none t.py",
    ),
    "ranks of a node by mpirun's pattern": (
        "#SBATCH -N 4 --gpus-per-node=4\nmpirun -np 4 --map-by ppr:2:node:PE=4 python t.py",
        "--gpus-per-node 4 --ntasks-per-node 2 --nodes 2 --runtime none t.py",
    ),
    "one rank of a job of GPUs": (
        "#SBATCH --gpus=8\nsrun python t.py",
        "--gpus 8 --ntasks-per-node 1 --runtime none t.py",
    ),
    "a rank for each GPU of nodes that the tasks tell": (
        "#SBATCH -n 2 --ntasks-per-node=1 --gres=gpu:4\nmpirun -np 8 python t.py",
        "--gres gpu:4 --nodes 2 --runtime none t.py",
    ),
    "fewer tasks than a node may have": (
        "#SBATCH -N 1 -n 1 --ntasks-per-node=4 -c 8\ntorchrun --nproc_per_node=4 t.py",
        "--nodes 1 --ntasks-per-node 4 --cpus-per-task 2 --launcher torchrun --runtime none t.py",
    ),
    "CPUs of tasks on nodes that nothing tells": (
        "#SBATCH -n 8 --gres=gpu:2\ntorchrun --nproc_per_node=2 t.py",
        "--gres gpu:2 --ntasks-per-node 2 --cpus-per-task 4 --launcher torchrun"
        " --runtime none t.py",
    ),
    "CPUs of such tasks that more ranks share": (
        "#SBATCH -n 2 -c 8\nmpirun -np 8 python t.py",
        "--ntasks 8 --cpus-per-task 2 --runtime none t.py",
    ),
    "as many ranks on one node as the job has nodes": (
        "#SBATCH -N 3\nsrun -N 1 -n 3 python t.py",
        "--nodes 1 --ntasks 3 --runtime none t.py",
    ),
    "a bind that the script leaves empty": (
        "#SBATCH -n 2\nD=\nsrun apptainer exec --bind=$D -B /x i.sif python t.py",
        "--ntasks 2 --image i.sif --bind /x t.py",
    ),
    "GPUs that deepspeed is to take": (
        "#SBATCH --gpus-per-node=8 -N 1\ndeepspeed --include localhost:4,5 t.py",
        "--gpus-per-node 8 --nodes 1 --ntasks-per-node 2 --launcher deepspeed --runtime none t.py",
    ),
    "CPUs of a task that ranks of mpirun share": (
        "#SBATCH -N 2 --ntasks-per-node=1 -c 8 --gpus-per-node=4\nmpirun -np 8 python t.py",
        "--gpus-per-node 4 --nodes 2 --cpus-per-task 2 --runtime none t.py",
    ),
    "an agent here and by ssh on the other nodes": (
        "#PBS -l select=2:ncpus=8:ngpus=4\nexport A=1\nn=0\nfor h in $(sort -u $PBS_NODEFILE); do\n"
        'R="torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$n t.py"\n'
        "if [ $h == $HOSTNAME ]; then $R & else ssh $h $R & fi\nn=$((n+1))\ndone\nwait",
        "--scheduler pbs --gpus-per-node 4 --nodes 2 --ntasks-per-node 4 --cpus-per-task 2"
        " --launcher torchrun --runtime none --env A=1 t.py",
    ),
    "Cobalt": (
        "#!/bin/bash\n#COBALT -n 2 -t 60 -q full-node -A me\n"
        "mpirun -n 16 -npernode 8 singularity exec --nv i.sif python t.py",
        "--scheduler cobalt --time 60 --partition full-node --account me --nodes 2"
        " --ntasks-per-node 8 --image i.sif --nv t.py",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WHOLE.values(), ids=WHOLE)
def test_a_whole_script(text: str, expected: str) -> None:
    assert line(text) == expected
    is_taken(expected)


def test_what_ssh_does_not_pass_on_is_told() -> None:
    text = f"cd /x\nexport A=1\nmodule load m\n{BY_SSH} python t.py & done; wait"
    assert "4: A, module load m: ssh does not pass them on" in said(text, "left-out")
    assert "4: ssh starts it in your home folder: launch it there" in said(text, "to-look-at")


@pytest.mark.parametrize(
    "run",
    [
        f"{BY_SSH} {command}; done"
        for command in ("pkill python", "./prepare &", "mpirun", "docker run")
    ],
)
def test_what_ssh_does_beside_a_training_is_no_launch(run: str) -> None:
    assert lines(f"{run}\n{RUN} python t.py") == ["--image image.sif t.py"]


@pytest.mark.parametrize(
    ("job", "starter"),
    [
        pytest.param(*("gpus-per-node=4", "mpirun -H a:4,b:4"), id="hosts"),
        pytest.param(*("gpus-per-node=4", "mpirun --hostfile h"), id="a file of hosts"),
        pytest.param(*("gpus-per-node=4", "horovodrun -H a:4,b:4"), id="horovodrun"),
        pytest.param(*("gpus-per-node=4", "mpirun --map-by ppr:2:socket"), id="sockets"),
        pytest.param(*("gpus=8 --ntasks-per-gpu=1", "srun"), id="GPUs of the job"),
        pytest.param(*("gpus=8 --ntasks-per-gpu=1", "mpirun"), id="GPUs of the job and mpirun"),
        pytest.param(*("gpus=8", "srun --ntasks-per-gpu=1"), id="GPUs of the step"),
    ],
)
def test_ranks_that_are_told_by_their_places_are_not_one_a_node(job: str, starter: str) -> None:
    assert "--ntasks-per-node" not in line(f"#SBATCH --{job}\n{starter} python t.py").split()


def test_a_condition_that_chooses_nodes_is_told_of() -> None:
    loop = "for h in $(scontrol show hostnames); do if x; then ssh $h python t.py & fi; done; wait"
    notes = said(loop, "to-look-at")
    assert "1: the condition of line 1 decides whether this runs" in notes
    assert not any("the loop of line" in note for note in notes)


def test_agents_of_two_loops_are_two_launches() -> None:
    run = f'{BY_SSH} "torchrun --nnodes=2 --node_rank=$n {{}}" & n=$((n+1)); done; wait'
    text = "\n".join(run.format(trainer) for trainer in ("a.py", "b.py"))
    assert [typed[-4:] for typed in lines(text)] == ["a.py", "b.py"]


def test_processes_of_two_loops_of_ssh_are_two_launches() -> None:
    text = f"{BY_SSH} python a.py & done; wait\n{BY_SSH} python b.py & done; wait"
    assert [typed[-4:] for typed in lines(text)] == ["a.py", "b.py"]


@pytest.mark.parametrize(
    "end",
    [
        "exit 0",
        "exec python a.py",
        "f() { exit; }; f",
        "exit; X=$(a)",
        "A=1; if [ $A = 1 ]; then exit $?; fi",
        "A=1; if [ $A = 1 ]; then srun python a.py; exit 1; fi",
    ],
)
def test_what_stands_behind_an_exit_never_runs(end: str) -> None:
    text = f"python a.py\n{end}\npython b.py"
    assert {typed[-4:] for typed in lines(text)} == {"a.py"}
    assert any("from here on nothing runs" in note for note in said(text, "to-look-at"))


@pytest.mark.parametrize(
    "end",
    [
        "[ -e x ] || exit 1",
        "cd x && exit",
        "cd x && { exit; }",
        "f() { exit; }; cd x && f",
        "while read x; do exit; done",
        "(exit 1)",
        "if a; then exit; fi",
        'A=\nif [ -z "$A" ]; then exit 1; fi',
        'A=\nif [ -z "$A" ]; then exit -1; fi',
        'A=\nif [ -z "$A" ]; then echo "$(python -V)"; exit 1; fi',
        'fail() { exit 2; }\nA=""\nif [ -z "$A" ]; then fail; fi',
        "X=$(exit 1)",
        "{ sleep 1; exit 1; } &",
        "f() { exit; }; f > log &",
        "exec sleep 1000 &",
        "exec {lock}>/tmp/lock",
        "exec 3>&1 {lock}>/tmp/lock",
        "exec > log",
        "a | exit",
    ],
)
def test_a_script_that_may_go_on_is_read_on(end: str) -> None:
    assert lines(f"{end}\npython b.py")[-1].endswith("b.py")


def test_an_image_that_docker_pushes_is_of_its_registry() -> None:
    text = "docker buildx build --push -t a.b/mine .\nsrun docker run a.b/mine python t.py"
    assert line(text) == "--image docker://a.b/mine t.py"


@pytest.mark.parametrize(
    "made",
    [
        "docker build -q -t mine .",
        "docker build --tag=mine:latest .",
        "docker load -i a.tar",
        "docker tag other mine",
        "docker commit c mine",
    ],
)
def test_an_image_that_docker_has_on_this_machine_is_to_be_filled_in(made: str) -> None:
    text = f"{made}\nsrun docker run mine python t.py"
    assert line(text) == "--image '<image>' t.py"
    assert said(text, "to-fill-in")[0].startswith(
        "2: <image>: mine is an image of this machine's docker"
    )


@pytest.mark.parametrize(
    ("job", "step", "expected"),
    [
        ("gres=gpu:a100:4", "gres=gpu:2", "gres gpu:a100:2"),
        ("gpus=v100:2,a100:1", "gpus=2", "gpus 2"),
        ("gpus-per-node=$T", "gpus-per-node=2", "gpus-per-node 2"),
        ("gres=gpu:4(S:0)", "gres=gpu:2", "gres gpu:2"),
        ("gres=gpu:a100:1,gpu:v100:1", "gres=gpu:2", "gres gpu:2"),
        ("gres=gpu:a100:4", "gres=gpu:2,gpu:1", "gres gpu:2,gpu:1"),
    ],
)
def test_a_steps_gpus_are_of_the_jobs_type_where_it_has_one(
    job: str, step: str, expected: str
) -> None:
    text = f"#SBATCH --nodes=2\n#SBATCH --{job}\nsrun --{step} python t.py"
    assert line(text).startswith(f"--{expected} --nodes 2 ")


def test_a_folder_is_changed_to_before_the_launch() -> None:
    assert line(f"cd $SLURM_SUBMIT_DIR\n{RUN} python t.py") == "--image image.sif t.py"
    draft = read(f"cd /data\npushd /x\npopd\ncd sub\n{RUN} python t.py").drafts[0]
    assert draft.text.startswith("cd /data/sub && runner launch ")


def test_of_the_launches_in_branches_some_run() -> None:
    text = f"if x; then {RUN} python a.py; else {RUN} python b.py; fi"
    notes = said(text, "to-look-at")
    assert "1: conditions decide which of the 2 launches run" in notes
    assert not any("become 2 jobs" in note for note in notes)


def test_the_runscript_of_an_image_is_told_of() -> None:
    text = f"{RUN.replace('exec', 'run')} python t.py\nsrun podman-hpc run i:1 python t.py"
    notes = [note for note in said(text, "to-look-at") if "runscript" in note]
    assert notes == ["1: the launch does not run the image's runscript"]


@pytest.mark.parametrize("step", ["./run.sh", "bash run.sh", "bash -c 'source e; bash run.sh'"])
def test_a_script_that_a_step_runs_is_said_not_to_be_read(step: str) -> None:
    assert any("run.sh is not read: agents" in note for note in said(f"srun {step}", "to-look-at"))


def test_a_module_of_a_branch_is_told_of() -> None:
    notes = said(f"if x; then module load a; fi\n{RUN} python t.py", "to-look-at")
    assert "1: module load a: the condition of line 1 decides this" in notes


def test_what_ssh_starts_on_the_nodes_is_runners() -> None:
    text = "for h in $(scontrol show hostnames); do ssh $h python t.py & done; wait"
    assert any("ssh: a process on each node, by hand" in note for note in said(text, "left-out"))
    monitor = text.replace("python t.py", "bash monitor.sh")
    assert any(
        "it runs beside" in note
        for note in said(f"{monitor}\nsrun python t.py", "not-carried-over")
    )


def test_the_log_of_srun_is_runners() -> None:
    notes = said(f"srun -o logs/%j.out {RUN[5:]} python t.py", "left-out")
    assert notes == ["1: logs/%j.out: runner keeps the log"]


def test_agents_that_a_loop_and_the_head_start_are_one_launch() -> None:
    srun = "srun -N1 -n1 -w {} torchrun --nnodes=2 --nproc_per_node=4 t.py"
    loop = f"for i in 1; do {srun.format('$i')} & done\n{srun.format('head')}"
    expected = "--nodes 2 --ntasks-per-node 4 --launcher torchrun --runtime none t.py"
    assert line(f"#SBATCH -N 2\n{loop}") == expected
    assert said(f"#SBATCH -N 2\n{loop}", "not-carried-over") == []


def test_modules_of_shifter_are_the_sites() -> None:
    text = "#SBATCH --image=i:1\n#SBATCH --module=gpu,nccl-plugin\nsrun shifter python t.py"
    expected = "2: --module=gpu,nccl-plugin: the site's profile decides it"
    assert said(text, "left-out") == [expected]


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("{} & {}; wait", "the script runs them together"),
        ("{} & {} & wait; {}", "--dependency afterok:JOB keeps their order"),
        ("{} & {}; {}", "--dependency afterok:JOB keeps their order"),
    ],
)
def test_steps_run_together_where_nothing_waits_between_them(text: str, how: str) -> None:
    text = text.replace("{}", "srun python t.py")
    assert any(note.endswith(how) for note in said(text, "to-look-at"))


def test_an_agent_in_a_container_that_is_not_known_is_told_of() -> None:
    notes = said("srun sarus run i:1 torchrun --nproc-per-node=4 t.py", "to-look-at")
    assert "1: torchrun is started by sarus, which is not known here, for each rank" in notes
    notes = said("srun ./train --launcher torch", "to-look-at")
    assert not any("is started by" in note for note in notes)


def test_what_a_step_leaves_on_its_nodes_is_not_there_for_the_next_job() -> None:
    notes = said("srun python stage.py /tmp/d\nsrun python t.py --data /tmp/d", "to-look-at")
    assert any("what one leaves in /tmp" in note for note in notes)


def test_ranks_in_all_that_only_the_run_knows_are_told_of() -> None:
    notes = said("#PBS -l select=2\nmpiexec -n ${NP:-1} --ppn 4 python t.py", "to-look-at")
    assert any(note.startswith("2: ${NP:-1} ranks in all") for note in notes)
    assert not any(
        "in all" in note
        for note in said("#PBS -l select=2\nmpiexec -n $((2*P)) --ppn $P python t.py", "to-look-at")
    )


def test_a_long_loop_is_an_array_or_a_loop_of_launches() -> None:
    notes = said(f"for i in {{0..99}}; do {RUN} python t.py $i; done", "to-look-at")
    assert "1: a loop: a launch for each of its rounds, or one with --array for all" in notes


def test_a_cluster_of_another_branch_is_not_needed() -> None:
    text = f"if x; then ray start --head\nelse {RUN} python t.py; fi\n{RUN} python t.py"
    assert read(text).drafts[-1].possible


def test_a_cluster_that_is_only_ended_is_not_needed() -> None:
    assert line(f"srun ray stop\n{RUN} python t.py\nray status") == "--image image.sif t.py"


def test_experiments_beside_each_other_on_one_node_are_launches_of_their_own() -> None:
    run = "torchrun --nnodes 1 --node_rank 0 --master_port 2950$s t.py --seed $s &"
    drafts = read(f"#SBATCH -N 1\nfor s in 1 2; do {run} done; wait").drafts
    assert all(draft.possible for draft in drafts)
    assert [draft.text.partition("t.py ")[2] for draft in drafts] == ["-- --seed 1", "-- --seed 2"]


@pytest.mark.parametrize(
    ("by_ssh", "possible", "notes"),
    [
        pytest.param(*("DATA=/d", True, []), id="as here"),
        pytest.param(*("DATA=/e", False, []), id="another value"),
        pytest.param(*("DATA=/d C=1", False, []), id="one that is not here"),
        pytest.param(*("A=1", True, ["6: by ssh it does not get DATA"]), id="fewer"),
    ],
)
def test_agents_here_and_by_ssh_have_one_value_of_a_variable(
    by_ssh: str, possible: bool, notes: list[str]
) -> None:
    run = "torchrun --nnodes=2 --node_rank=$n t.py"
    text = f"""#PBS -l select=2:ngpus=1
export DATA=/d A=1
n=0
for h in $(sort -u $PBS_NODEFILE); do
if [ $h = $HOSTNAME ]; then {run} & else
ssh $h "export A=1 {by_ssh}; cd $PBS_O_WORKDIR; {run}" & fi
n=$((n+1)); done; wait"""
    assert [draft.possible for draft in read(text).drafts] == [possible]
    assert [note for note in said(text, "to-look-at") if "ssh" in note] == notes


@pytest.mark.parametrize(
    "text",
    [
        "torchrun $DIST_ARGS tools/train a.yaml",
        "torchrun $A tools/train a.yaml",
        "torchrun $A --module pkg.train",
        "torchrun $A --no_python bash run.sh",
        "accelerate launch $A -m pkg.train a.yaml",
        "torchrun ${LAUNCH_FLAGS} train 8",
    ],
)
def test_a_variable_that_may_be_options_of_an_agent_has_no_line(text: str) -> None:
    assert [draft.possible for draft in read(text).drafts] == [False]


@pytest.mark.parametrize(("name", "end"), [("$1", "'<$1>' 8"), ("$SCRIPT", "$SCRIPT 8")])
def test_a_variable_before_words_that_are_no_script_is_the_script(name: str, end: str) -> None:
    assert line(f"srun torchrun --nproc_per_node=2 {name} 8").endswith(f"-- {end}")


def test_a_token_beside_a_variable_is_no_place_to_fill_in() -> None:
    assert said(f'{RUN} python t.py --prompt "<unk> $X"', "to-fill-in") == []


def test_what_ends_a_script_that_is_not_filled_in_is_told() -> None:
    notes = said(f'SIF=\nif [ -z "$SIF" ]; then exit 1; fi\n{RUN} python t.py', "to-look-at")
    assert "2: exit 1: the script ends here until it is filled in" in notes


@pytest.mark.parametrize("start", ["[ -d $D ] ||", "cd $D &&", "while a; do", "if a; then"])
def test_an_exit_that_may_not_run_is_not_told(start: str) -> None:
    end = {"while a; do": "; done", "if a; then": "; fi"}.get(start, "")
    notes = said(
        f"M=1\nif [ $M = 1 ]; then {start} exit 1{end}; {RUN} python t.py; fi", "to-look-at"
    )
    assert not any("filled in" in note for note in notes)


def test_a_python_that_an_agent_leaves_is_told() -> None:
    notes = said("$PYTHON -m torch.distributed.run t.py", "not-carried-over")
    assert notes == ["1: $PYTHON: the launch takes the Python of its environment"]


def test_a_job_that_srun_asks_for_is_the_launchs() -> None:
    made = line("srun -p $P -J a -t 5 -n 16 --ntasks-per-node=8 ${OPTIONS:-} python t.py")
    counts = "--nodes 2 --ntasks-per-node 8"
    assert made == f"--partition $P --job-name a --time 5 {counts} --runtime none t.py"
    lost = said("srun ${OPTIONS:-} python t.py", "not-carried-over")
    assert lost == ["1: srun ${OPTIONS:-}: your shell may have options in it"]


def test_ranks_in_all_that_srun_is_told_of_need_their_nodes() -> None:
    text = "srun -n ${N:-16} --ntasks-per-node=${M:-8} python t.py"
    assert "1: ${N:-16} ranks in all: the line starts ${M:-8} on each of its nodes" in said(
        text, "to-look-at"
    )


def test_what_a_program_that_starts_ranks_may_read_is_lost() -> None:
    text = "FORCE_TORCHRUN=1 NNODES=2 srun llamafactory-cli train c.yaml"
    lost = "1: NNODES=2: runner sets no such variable; llamafactory-cli may read it"
    assert said(text, "not-carried-over") == [lost]
    assert said("NNODES=2 srun python t.py", "not-carried-over") == []


def test_a_pattern_of_files_needs_no_job() -> None:
    notes = said(f"module is-loaded x\nmv *.old old/\n{RUN} python t.py", "not-carried-over")
    assert notes == ["2: mv *.old old/: no training; do it before the launch, where it is needed"]


def test_a_monitor_beside_a_training_is_no_launch() -> None:
    text = f"apptainer exec i.sif monitor gpu > log &\n{RUN} bash -c 'source e; report x'"
    assert len(read(text).drafts) == 1


def test_a_file_that_a_pipe_writes_is_told_of_once() -> None:
    lost = said(
        f"cat a | grep b | cut -f1 > /d/l.txt\n{RUN} python t.py /d/l.txt", "not-carried-over"
    )
    assert lost == ["1: cat a: write /d/l.txt before the launch"]


def test_braces_are_a_list() -> None:
    text = f"for lr in {{0.1,0.2}}; do {RUN} python t.py $lr; done"
    assert lines(text) == [f"--image image.sif t.py -- {lr}" for lr in ("0.1", "0.2")]


def test_a_loop_becomes_a_line_for_each_round() -> None:
    text = f"for lr in 0.1 0.01; do\n  {RUN} python t.py --lr $lr\ndone"
    assert lines(text) == [f"--image image.sif t.py -- --lr {lr}" for lr in ("0.1", "0.01")]
    notes = said(text, "to-look-at")
    assert any(note.startswith("1: a loop: 2 of the launches") for note in notes)
    assert any("2 steps of one job become 2 jobs" in note for note in notes)


# What only the run knows stands as <...> in the line, and its line number below it.
OPEN = {
    "a command's output": (
        "X=$(date +%s)\n{run} python t.py $X",
        "'<$(date +%s)>'",
        "1: $(date +%s): a command",
    ),
    "an argument": ("{run} python t.py $1", "'<$1>'", "1: $1: it is an argument of the script"),
    "a number of ranks that a loop sets": (
        "for n in $L; do mpirun -np $((n*4)) -npernode 4 python t.py; done",
        "'<$((n*4)) / 4>'",
        "1: $((n*4)): a loop",
    ),
    "a part of a path": (
        "{run} python t.py $HOME/unet/$2 -e $3",
        "-- '<$HOME/unet/$2>' -e '<$3>'",
        "1: $2: it is an argument of the script",
    ),
    "an image without a name": (
        'SIF=""\nsrun apptainer exec "$SIF" python t.py',
        "--image '<image>'",
        "2: <image>: the script names none",
    ),
    "no image of shifter": (
        "srun shifter python t.py",
        "--image '<image>'",
        "1: <image>: the script names none",
    ),
    "a blank beside a variable": (
        "{run} python $HOME/<me>/t.py",
        '"$HOME/<me>/t.py"',
        "1: <me>: the script leaves it open",
    ),
    "a long list": (
        "for i in {{0..279}}; do {run} python t.py $i; done",
        "'<$i>'",
        "1: $i: a loop or",
    ),
    "all arguments": ('{run} python t.py "$@"', "'<$@>'", "1: $@: it is an argument"),
    "a number that is counted": (
        "let n=2*4 p++\nk=3\n((m = k + 1))\n((k == m))\n{run} python t.py $p$m --k $k",
        "'<${p}4>' --k 3",
        "1: ${p}: a command",
    ),
    "a default of the job": (
        "A=${{A:-x_$SLURM_JOB_ID}}\n{run} python t.py $A",
        "'<${A:-x_$SLURM_JOB_ID}>'",
        "1: ${A:-x_$SLURM_JOB_ID}: only the job",
    ),
    "a branch": (
        "if x; then A=1; else A=2; fi\n{run} python t.py $A",
        "'<$A>'",
        "1: $A: a loop or",
    ),
    "a branch that is not understood": (
        "if [[ $R == 1 ]]; then A=1 B=2\nelse A=3\nfi\n{run} python t.py $A",
        "'<$A>'",
        "1: $A: a loop or",
    ),
    "a loop": ("for f in $(ls); do {run} python t.py $f; done", "'<$f>'", "1: $f: a loop or"),
    "a quoted star": (
        'X=ab\nif [[ $X == "*" ]]; then A=1; else A=2; fi\n{run} python t.py $A',
        "'<$A>'",
        "2: $A: a loop or",
    ),
    "a sourced file": ("source setup.sh\n{run} python t.py $LR", "'<$LR>'", "2: $LR: a file that"),
    "a file that names the image": (
        "#SBATCH --environment=/e/ngc.toml\ntorchrun --nproc_per_node=2 t.py",
        "--image '<image of /e/ngc.toml>'",
        "2: <image of /e/ngc.toml>: the image, mounts and",
    ),
    "modules that a file loads": (
        "source load_modules.sh\nsrun python t.py",
        "'<environment>'",
        "2: <environment>: the folder",
    ),
    "ranks that are not known": (
        "#SBATCH -N 2\naccelerate launch --num_processes $(count) t.py",
        "'<$(count) / nodes>'",
        "2: <$(count) / nodes>: the ranks of each node",
    ),
    "a base environment": (
        "conda activate\nsrun python t.py",
        "'<environment>'",
        "2: <environment>: the folder",
    ),
    "a file that may activate": (
        "source setup.sh\nsrun python t.py",
        "'<environment>'",
        "2: <environment>: the folder",
    ),
    "an environment": (
        "conda activate me\nsrun python t.py",
        "'<environment me>'",
        "1: <environment me>",
    ),
    "a value of the script's shell": (
        "{run} python t.py --seed $RANDOM",
        "'<$RANDOM>'",
        "1: $RANDOM: the script's shell",
    ),
    "a folder of the job": (
        "cd $TMPDIR\n{run} python t.py",
        "cd '<$TMPDIR>' &&",
        "1: $TMPDIR: only the job",
    ),
    "what the submission asks for": (
        "horovodrun -np $SLURM_NTASKS python t.py",
        "--ntasks '<$SLURM_NTASKS>'",
        "1: $SLURM_NTASKS: only the job",
    ),
    "a wrapper of the site": (
        "srun singularity_wrapper exec torchrun --nproc_per_node=2 t.py",
        "--image '<image of singularity_wrapper>'",
        "1: <image of singularity_wrapper>",
    ),
    "a folder that the script leaves open": (
        "#SBATCH -n 2\ncd <your folder>/x\nsrun python t.py",
        "cd '<your folder>/x' &&",
        "2: <your folder>: the script",
    ),
    "a blank of the script": (
        "#SBATCH --account=<account>\n{run} python t.py",
        "'<account>'",
        "1: <account>: the script leaves it open",
    ),
    "the environment of a project": (
        "poetry install\nsrun poetry run python t.py",
        "'<environment poetry>'",
        "2: <environment poetry>: the folder of poetry's environment: `poetry env info --path`",
    ),
    "conda's own way to activate": (
        "source /x/miniconda3/bin/activate me\nsrun python t.py",
        "'<environment me>'",
        "1: <environment me>: the folder of this conda environment; conda looks in /x/miniconda3/e",
    ),
    "a variable of getopts": (
        "while getopts a:b OPT; do true; done\n{run} python t.py $OPT",
        "'<$OPT>'",
        "1: $OPT: a loop or",
    ),
    "several names in one pattern": (
        "{run} python t.py /d/{{a,b}}.x",
        "'</d/{a,b}.x>'",
        "1: /d/{a,b}.x: only the job",
    ),
    "a sum of a template": (
        "#SBATCH --gpus=v100:{{(2 if big else 1)*nodes}}\n{run} python t.py",
        "'v100:<(2 if big else 1)*nodes>'",
        "1: <(2 if big else 1)*nodes>: the script leaves it open",
    ),
    "a range of nodes": ("#SBATCH --nodes=2-4\n{run} python t.py", "'<2-4>'", "1: --nodes=2-4"),
}


@pytest.mark.parametrize(("text", "place", "note"), OPEN.values(), ids=OPEN)
def test_a_guess_is_never_printed(text: str, place: str, note: str) -> None:
    report = read(text.format(run=RUN))
    assert place in report.drafts[0].text
    assert any(sentence.startswith(note) for sentence in said(text.format(run=RUN), "to-fill-in"))


LOST = {
    "an argument of an agent that is gone": (
        "srun python -m torch.distributed.launch --nproc_per_node=2 t.py",
        "1: --local_rank, which it gives to the script",
    ),
    "an image of the directives that no command enters": (
        "#SBATCH --image=docker:a/b\nsrun python t.py",
        "1: --image=docker:a/b: this does not run in that image",
    ),
    "a text for each rank that only prepares": (
        f"{RUN} bash -c 'source /e/env.sh;'\nsrun python t.py",
        "1: srun apptainer exec image.sif bash -c source /e/env.sh;: what it starts is not",
    ),
    "one node of pbsdsh": (
        "#PBS -l select=2\npbsdsh -n 1 python t.py",
        "2: pbsdsh: it starts this on some nodes",
    ),
    "settings that a filter writes": (
        f"sed s/A/1/ a.json > b.json\n{RUN} python t.py",
        "1: sed s/A/1/ a.json: write b.json before the launch",
    ),
    "variables for DeepSpeed's nodes": (
        f"echo A=1 >> .deepspeed_env\n{RUN} python t.py",
        "1: echo A=1: give its variables by --env",
    ),
    "a file of the job that a here-document writes": (
        f"cat > $SLURM_JOB_ID.json << E\nx\nE\n{RUN} python t.py",
        "1: cat: write $SLURM_JOB_ID.json before the launch, under a name that needs no job",
    ),
    "a file that a here-document writes": (
        f"cat << E > a.sh\nx\nE\n{RUN} python t.py",
        "1: cat: write a.sh before the launch",
    ),
    "a shell for a person": ("srun --pty bash", "1: srun --pty bash: what it starts is not known"),
    "a limit of the shell": (
        f"ulimit -n 4096\n{RUN} python t.py",
        "1: ulimit -n 4096: it is of the script's shell",
    ),
    "an empty path of Python": (
        "export PYTHONPATH=\nsrun python t.py",
        "1: PYTHONPATH=: the trainer gets that of the modules",
    ),
    "an instance of an image that something else starts": (
        "apptainer exec instance://one python t.py",
        "1: instance://one: give the image itself",
    ),
    "an agent in an environment of the container": (
        f"{RUN} bash -c 'source activate e; accelerate launch --config_file a.yaml t.py'",
        "1: runner starts the image's own accelerate, not that of e",
    ),
    "a comment in place of a program": (
        "srun bash -c 'nvidia-smi | #x; python t.py'",
        "1: no program is recognized in this text",
    ),
    "a step of another job": (
        "srun --jobid=1234 python t.py",
        "1: --jobid=1234: a step of another job",
    ),
    "an option without its value": (
        "srun --mpi --ntasks 4 python t.py",
        "1: the option --mpi is not known",
    ),
    "a cluster of its own": (
        "srun -n1 ray start --head --block &\npython t.py",
        "1: srun -n1 ray start --head --block: the training uses what it starts",
    ),
    "a folder with the job's number": (
        f"mkdir -p out/$SLURM_JOB_ID\n{RUN} python t.py",
        "1: mkdir -p out/$SLURM_JOB_ID: it needs what only the job knows",
    ),
    "a file that a text reads": (
        f"echo A=1 > env.sh\n{RUN} bash -c 'source env.sh; python t.py'",
        "1: echo A=1: write env.sh before the launch",
    ),
    "a file that a filter writes": (
        f"sed s/a/b/ c.in > c.yaml\n{RUN} python t.py c.yaml",
        "1: sed s/a/b/ c.in: write c.yaml before the launch",
    ),
    "a command": (f"tar xf data.tar\n{RUN} python t.py", "1: tar xf data.tar: no training"),
    "the names of all nodes": (
        f"export HOSTS=$(scontrol show hostnames)\n{RUN} python t.py",
        "1: HOSTS=$(scontrol show hostnames): it names nodes of the job",
    ),
    "a device of the script's shell": (
        f"export HIP_VISIBLE_DEVICES=$ROCR_VISIBLE_DEVICES\n{RUN} python t.py",
        "1: HIP_VISIBLE_DEVICES=$ROCR_VISIBLE_DEVICES: the script's shell",
    ),
    "a trap": (
        f"trap handler USR1\ntrap 'rm -r $TMP' EXIT\n{RUN} python t.py",
        "1: trap handler USR1: the launch has no trap",
    ),
    "a check of the environment": (
        f"{RUN} python -c 'import torch'\n{RUN} python t.py",
        "1: srun apptainer exec image.sif python -c import torch: no training",
    ),
    "a path that a text sets": (
        f"{RUN} bash -c 'export PATH=/e/bin:$PATH; python t.py'",
        "1: PATH=/e/bin:$PATH: the trainer gets that of the image",
    ),
    "a server beside a script": (
        f"srun metrics-server -d &\n{RUN} bash train.sh",
        "1: srun metrics-server -d: it runs beside the training",
    ),
    "what a file sets": (f". vars.sh\n{RUN} python t.py", "1: . vars.sh: what it sets is not"),
    "an image that ranks write to": (
        "srun apptainer exec -w i.sif python t.py",
        "1: --writable: ranks that write to one image destroy it",
    ),
    "an option of horovodrun": ("horovodrun -np 2 --tcp python t.py", "1: horovodrun --tcp"),
    "the rounds of a loop": (
        f"for i in 0 1; do srun -N1 -r $i {RUN[5:]} python t.py --rank $i & done; wait",
        "1: the rounds of this loop run together",
    ),
    "a module": (f"module swap a b\n{RUN} python t.py", "1: module swap a b"),
    "an agent's option": (
        "srun accelerate launch --config_file c.yaml t.py",
        "1: accelerate --config-file c.yaml",
    ),
    "a variable": (f"export X=$(date)\n{RUN} python t.py", "1: X=$(date): a command"),
    "a file that is written": (
        f"cat > run.sh <<EOF\npython t.py\nEOF\n{RUN} bash run.sh",
        "1: cat: write run.sh before the launch",
    ),
    "several programs": ("srun -n 4 --multi-prog x.conf", "1: srun --multi-prog starts different"),
    "several parts": ("srun -n1 python a.py : -n2 python b.py", "1: srun with several parts"),
    "a heterogeneous job": (
        f"#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n{RUN} python t.py",
        "2: a heterogeneous",
    ),
    "PBS's parts": (
        "#PBS -l select=1:ncpus=4+2:ncpus=8\nmpiexec -n 3 python t.py",
        "1: a heterogeneous job",
    ),
    "a runscript": ("apptainer run tool.sif --epochs 3", "1: what the image's runscript starts"),
    "no value": (f"#SBATCH --account=\n{RUN} python t.py", "1: --account has no value"),
    "variables of a file": (
        f"export $(grep -v '^#' .env | xargs)\n{RUN} python t.py",
        "1: export $(grep -v '^#' .env | xargs): what it sets is not known",
    ),
    "a job that is submitted": (f"sbatch a.sh\n{RUN} python t.py", "1: sbatch a.sh: the job that"),
    "a program around an agent": (
        "nsys profile -o a torchrun --nproc_per_node=2 t.py",
        "1: nsys profile -o a: not around the agent",
    ),
    "an open quote": (
        f'{RUN} python t.py\necho "a\nexport B="b"\necho c',
        "2: the shell's grammar does not fit",
    ),
    "an open quote at the end": (
        f'{RUN} python t.py "a\nb"\nif A; then\n echo "c\nfi',
        "4: the shell's grammar does not fit",
    ),
    "an open loop": (
        f"{RUN} python t.py\nfor i in 1 2; do\n echo\necho",
        "2: the shell's grammar does not fit",
    ),
    "a preparation of each node": (
        f"srun mkdir /dev/shm/a\n{RUN} python t.py",
        "1: srun mkdir /dev/shm/a: it is for the nodes of the job",
    ),
    "a text that does more than look": (
        f"srun sh -c '[ -d /x ] || mkdir /x; nvidia-smi'\nsrun sh -c 'date'\n{RUN} python t.py",
        "1: srun sh -c [ -d /x ] || mkdir /x; nvidia-smi: ",
    ),
    "a copy to the node": (
        f"cp a /tmp/b\n{RUN} python t.py",
        "1: cp a /tmp/b: it is for the nodes",
    ),
    "a folder of the job": (
        f"cd $SLURM_TMPDIR\ntar xf /a.tar\n{RUN} python t.py",
        "2: tar xf /a.tar: it needs what only the job knows",
    ),
    "a text that a loop makes": (
        f'for h in $H; do C="ssh $h a"; eval $C; done\n{RUN} python t.py',
        "1: eval ssh $h a: what it starts",
    ),
    "a property of PBS's nodes": (
        "#PBS -l nodes=1:ppn=2:v100\npython t.py",
        "1: v100: a property of nodes",
    ),
    "options by variable": ("srun $OPTIONS python t.py", "1: $OPTIONS may be options"),
    "options that a condition chooses": (
        'A=""\nif x; then A="--y=1 -K"; fi\nsrun $A python t.py',
        "3: srun $A, as --y=1 -K: a loop or a condition decides it",
    ),
    "a container that a condition chooses": (
        "if x; then A=(--container-image i:1); fi\nsrun ${A[@]} python t.py",
        "2: srun $A, as --container-image i:1: a loop or a condition decides it",
    ),
    "options of which a condition chooses one": (
        'if x; then A="--nv --bind /a"; else A="--nv --cleanenv"; fi\n'
        "apptainer exec $A i.sif python t.py",
        "2: apptainer $A, as --nv --bind /a or --nv --cleanenv: a loop",
    ),
    "options of which a condition chooses one or none, in a list": (
        "A=(--nv)\nif x; then A=(--rocm); else A=(-B /a); fi\n"
        'apptainer exec "${A[@]}" i.sif python t.py',
        "3: apptainer $A, as --nv or --rocm or -B /a: a loop",
    ),
    "a dash of a typeset text": (
        "singularity run \u2013nv i.sif python t.py",
        "1: \u2013nv begins with a dash that no program knows",
    ),
    "a command that another one has made": (
        f'C="srun python t.py $X"\nC=$(echo "$C" | sed s/a/b/)\n{RUN} python t.py\neval "$C"',
        "4: eval $(echo",
    ),
    "words that are no options of a directive": (
        f"#SBATCH -N 2 nodes --mem=1G\n{RUN} python t.py",
        "1: nodes --mem=1G: no option",
    ),
    "options with what a command prints, which a condition chooses": (
        'if x; then A="-w $(date +%d %m)"; fi\nsrun $A -n 2 python t.py',
        "2: srun $A, as -w $(date+%d%m): a loop",
    ),
    "a flag of mpirun that is not known": (
        "mpirun -output-proctable -np 2 python t.py",
        "1: mpirun -output-proctable",
    ),
    "an option or a program": (
        'if x; then A="--y=1"; else A=python3; fi\nsrun $A t.py',
        "2: $A may be options",
    ),
    "a monitor with a log of its own": (
        f"nvidia-smi -l > gpu.log &\n{RUN} python t.py",
        "1: nvidia-smi -l: it runs beside the training",
    ),
    "modules that are restored, in short": (f"ml r mine\n{RUN} python t.py", "1: ml r mine"),
    "an unknown option": ("srun --no-such-thing 4 python t.py", "1: the option --no-such-thing"),
    "a here-document": (
        f"cat > x.sh <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nEOF\n{RUN} python t.py",
        "3: directives in a here-doc",
    ),
    "an input": (f"{RUN} python - <<EOF\nimport t\nEOF", "1: srun < <<: ranks of runner read no"),
    "an input before the command": (f"< a.txt {RUN} python t.py", "1: srun < a.txt: ranks of"),
    "an input by a pipe": (f"echo y | {RUN} python t.py | tee log", "1: srun < <(echo): ranks of"),
    "an input by a text": (f"{RUN} python t.py <<< y", "1: srun < <<: ranks of"),
    "a program around nothing": ("perf\nsrun python t.py", "1: perf: what it starts is not known"),
    "an empty expansion": ('a.sh ${} "${}"\nsrun python t.py', "1: a.sh ${} ${}: what it starts"),
    "an input of the first rank": (
        "mpirun -np 2 bash <<EOF\npython t.py\nEOF",
        "1: mpirun < <<: ranks of runner read no",
    ),
    "an empty value": (f"#SBATCH --mail-user=\n{RUN} python t.py", "1: --mail-user has no value"),
    "a server": (
        f"srun -N1 vllm serve m &\n{RUN} python t.py",
        "1: srun -N1 vllm serve m: it runs beside the training",
    ),
    "the CPUs of an agent": (
        "#SBATCH -N1\n#SBATCH -c 32\naccelerate launch --config_file c.yaml t.py",
        "2: --cpus-per-task=32: those of an agent",
    ),
    "a container that was not made": (
        "srun --container-name=c python t.py",
        "1: --container-name=c: only the run knows its image",
    ),
    "an image that is fetched": (
        f"apptainer pull a.sif docker://a\n{RUN} python t.py",
        "1: apptainer pull a.sif docker://a: no training",
    ),
    "a script of the user's": (f"./x.sh\n{RUN} python t.py", "1: ./x.sh: what it starts is not"),
    "a script in the same folder": (
        f"bash -x train.sh\n{RUN} python t.py",
        "1: bash -x train.sh: what it starts is not known here: train.sh is not read",
    ),
    "a word that differs from node to node": (
        f"n=0\n{BY_SSH} 'python t.py --rank $n' & n=$((n+1)); done; wait".replace("'", '"'),
        "2: it is started by hand on each node, with other words or variables on each",
    ),
    "a sum that differs from node to node": (
        f"n=0\n{BY_SSH} python t.py --rank $n & let n+=1; done; wait",
        "2: it is started by hand on each node, with other words or variables on each",
    ),
    "rounds with other words": (
        "for i in 0 1; do ssh ${SLURM_JOB_NODELIST[$i]} python t.py --rank $i & done; wait",
        "1: it is started by hand on each node, with other words or variables on each",
    ),
    "a loop that starts two programs": (
        f"{BY_SSH} python a.py & ssh $h python b.py & done; wait",
        "1: it is started by hand on each node, with other words or variables on each",
    ),
    "a launcher within ssh": (
        f"{BY_SSH} 'mpirun -np 4 python t.py' & done; wait",
        "1: mpirun within ssh: what it starts on each node is a job of its own",
    ),
    "a step of Slurm within ssh": (
        f"{BY_SSH} srun -n 4 ./train & done; wait",
        "1: srun within ssh: what it starts on each node is a job of its own",
    ),
    "what ssh cleans up": (
        f"{BY_SSH} 'pkill -9 python'; done\n{RUN} python t.py",
        "1: ssh $h pkill -9 python: it is for the nodes of the job",
    ),
    "what ssh prepares": (
        f"{BY_SSH} ./prepare; done\n{RUN} python t.py",
        "1: ssh $h ./prepare: what it starts is not known here",
    ),
    "a process on the first node by ssh": (
        "H=$(scontrol show hostnames | head -n 1)\nssh $H python t.py &\nwait",
        "2: ssh $(scontrol show hostnames | head -n 1) python t.py: what it starts is not known",
    ),
    "a service of docker compose": (
        "docker compose run trainer python t.py",
        "1: docker compose run trainer python t.py: what it starts is not known here",
    ),
    "variables of a file of docker's": (
        "srun docker run --env-file e i python t.py",
        "1: docker --env-file e",
    ),
    "GPUs that docker chooses": (
        "srun docker run --gpus '\"device=0\"' i python t.py",
        '1: docker --gpus "device=0": the GPUs are those of a rank',
    ),
    "a volume of docker's": (
        "srun docker run -v name:/data i python t.py",
        "1: docker --volume name:/data: a volume of docker's own",
    ),
    "a label of a volume": (
        "srun docker run -v /a:/b:ro,z i python t.py",
        "1: docker --volume /a:/b:ro,z: its z",
    ),
    "GPUs of several types": (
        "#SBATCH --gpus=v100:2,a100:1\nsrun --gpus=2 python t.py",
        "1: GPUs of v100:2,a100: the step asks for its own",
    ),
    "a container of docker that runs already": (
        "docker exec me python t.py",
        "1: docker exec: only the run knows the container's image",
    ),
    "how docker starts": (
        "srun docker run --entrypoint python i:1 t.py",
        "1: docker --entrypoint python",
    ),
    "a command behind the training": (
        f"{RUN} python t.py\ncp -r a b",
        "2: cp -r a b: no training; do it after",
    ),
    "what builds a package": (
        f"{RUN} python t.py\nsrun python ops/setup.py install",
        "2: srun python ops/setup.py install: no training; do it after",
    ),
    "a program behind the training that nothing waits for": (
        f"{RUN} python t.py\npython plot.py &",
        "2: python plot.py: no training; do it after",
    ),
    "an address": (
        "export PATH=/opt/x:$PATH\nsource /e/bin/activate\nsrun python t.py",
        "1: PATH=/opt/x:$PATH: the trainer gets that of the modules",
    ),
    "nothing": ("echo hello", "0: no command starts a training"),
}


@pytest.mark.parametrize(("text", "note"), LOST.values(), ids=LOST)
def test_what_is_not_understood_is_told_with_its_line(text: str, note: str) -> None:
    lost = said(text, "not-carried-over")
    assert any(sentence.startswith(note) for sentence in lost), lost


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOST[name][0], id=name)
        for name in (
            "several parts",
            "a heterogeneous job",
            "PBS's parts",
            "options by variable",
            "an option or a program",
            "a dash of a typeset text",
            "a runscript",
            "an unknown option",
            "an input",
            "an input before the command",
            "an input by a pipe",
            "an input by a text",
            "an input of the first rank",
            "several programs",
            "the rounds of a loop",
            "a container that was not made",
            "a cluster of its own",
            "an agent in an environment of the container",
            "a step of another job",
            "an option without its value",
            "an instance of an image that something else starts",
            "a container of docker that runs already",
            "a word that differs from node to node",
            "a sum that differs from node to node",
            "rounds with other words",
            "a loop that starts two programs",
            "a launcher within ssh",
            "a step of Slurm within ssh",
            "a process on the first node by ssh",
            "a service of docker compose",
        )
    ],
)
def test_no_line_where_the_step_is_not_understood(text: str) -> None:
    assert not any(draft.possible for draft in read(text).drafts)


def test_a_log_and_a_look_for_a_program_are_not_lost() -> None:
    text = (
        f"exec 1>job.log\ncommand -v nvidia-smi && nvidia-smi\nsrun --mpi=list\n{RUN} python t.py"
    )
    assert said(text, "not-carried-over") == []


# What runs in an image of pyxis: the end of the line.
INSIDE = {
    "accelerate of an environment": (
        "bash -c 'source /e/bin/activate; accelerate launch --mixed_precision no t.py'",
        "bash -c 'export ACCELERATE_MIXED_PRECISION=no; source /e/bin/activate; exec python t.py'",
    ),
    "deepspeed of an environment": (
        "bash -c 'source /e/bin/activate; deepspeed t.py --lr 1'",
        "bash -c 'source /e/bin/activate; exec python t.py \"--local_rank=$LOCAL_RANK\" --lr 1'",
    ),
    "composer": (
        "composer --nproc 4 --world_size 8 --node_rank 0 t.py a.yaml",
        "bash -c 'export NODE_RANK=\"$GROUP_RANK\"; exec python t.py a.yaml'",
    ),
    "composer's modules": (
        "composer -n 4 -m a.train --lr 1",
        "bash -c 'export NODE_RANK=\"$GROUP_RANK\"; exec python -m a.train --lr 1'",
    ),
    "uv in an image": (
        "uv run --no-sync python t.py",
        "bash -c 'exec uv run --no-sync python t.py'",
    ),
    "an agent of uv": (
        "uv run torchrun --nnodes 2 --nproc_per_node 4 t.py",
        "bash -c 'exec uv run python t.py'",
    ),
}


@pytest.mark.parametrize(("text", "expected"), INSIDE.values(), ids=INSIDE)
def test_a_program_in_an_image_that_is_not_apptainers(text: str, expected: str) -> None:
    head = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=4\n"
    made = line(f"{head}srun --container-image=i:1 {text}")
    assert made.endswith((f" docker://i:1 -- {expected}", f" docker://i:1 {expected}"))


def test_an_environment_of_uv_elsewhere() -> None:
    assert line("srun uv run --directory /p python t.py").endswith(
        "--image /p/.venv -- bash -c 'cd /p && exec python t.py'"
    )
    assert "--image /v " in line("export UV_PROJECT_ENVIRONMENT=/v\nsrun uv run python t.py")


def test_words_that_a_line_end_divides_are_one() -> None:
    text = 'CMD="torchrun "\\\n"t.py --lr"\nsrun $CMD a\\\nb \'c\'\\\n"d"'
    assert line(text).endswith("t.py -- --lr ab cd")


def test_hosts_that_a_loop_lists_are_runners() -> None:
    text = (
        'for h in $(scontrol show hostnames); do F="$F -H $h:4"; done\nmpirun $F -np 8 python t.py'
    )
    assert line(f"#SBATCH --nodes=2\n{text}").endswith("--ntasks 8 --runtime none t.py")
    assert "3: H: runner places ranks" in said(f"#SBATCH --nodes=2\n{text}", "left-out")


def test_the_length_of_a_list() -> None:
    nodes = "N=($(scontrol show hostnames $SLURM_JOB_NODELIST))\nL=(a b c)"
    text = f"#SBATCH --nodes=4\n{nodes}\nsrun python t.py ${{#N[@]}} ${{#L[@]}}"
    assert line(text).endswith("t.py -- 4 3")


def test_a_log_in_the_text_of_each_rank_is_no_program() -> None:
    text = "bash -c 'source e; bash train.sh | tee a.log'"
    assert line(f"srun {text}").endswith("source e; bash train.sh | tee a.log'")


def test_each_name_of_read_is_not_known() -> None:
    assert line("read -r A B <<< $C\nsrun python t.py $A $B").endswith("t.py -- '<$A>' '<$B>'")


def test_an_environment_definition_file(tmp_path: Path) -> None:
    table = (
        'image = "/i.sqsh"\nmounts = ["${SCRATCH}:/s", "/a:/b:ro"]\nworkdir = "/w"\n'
        '[env]\nA = "1"\n[annotations]\ncom.hooks.x.enabled = "true"\n'
    )
    (tmp_path / "e.toml").write_text(table, encoding="utf-8")
    text = "srun --environment=./e.toml python t.py"
    made = script_report.make(script.load(text, str(tmp_path / "job.sh")))
    assert made.drafts[0].text == (
        "runner launch --image '<image>' --bind $SCRATCH:/s --bind /a:/b:ro "
        "--env A=1 -- bash -c 'cd /w && exec python t.py'"
    )
    assert [note.what[:11] for note in made.notes["not-carried-over"]] == ["annotations"]
    (tmp_path / "e.toml").write_text(f'base_environment = "x"\n{table}', encoding="utf-8")
    made = script_report.make(script.load(text, str(tmp_path / "job.sh")))
    assert "--image '<image of ./e.toml>'" in made.drafts[0].text


def test_directives_in_a_here_document_ask_for_nothing() -> None:
    text = LOST["a here-document"][0]
    assert line(text) == "--image image.sif t.py"


def test_many_backslashes_in_a_here_document_do_not_keep_it_from_ending() -> None:
    text = chr(92) * 10**6  # for an hour, where each is looked at once for each before it
    assert line(f"cat << E > a\n{text}\nE\n{RUN} python t.py") == "--image image.sif t.py"


def test_what_runner_does_is_left_out() -> None:
    text = (
        "#SBATCH --nodes=2\n#SBATCH --cpus-per-task=4\n"
        "export MASTER_ADDR=$(scontrol show hostnames | head -n1) WORLD_SIZE=$SLURM_NTASKS\n"
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\n"
        f"{RUN} python t.py | tee log"
    )
    assert line(text) == "--nodes 2 --cpus-per-task 4 --image image.sif t.py"
    assert said(text, "left-out") == [
        "3: MASTER_ADDR, WORLD_SIZE: runner sets them",
        "4: OMP_NUM_THREADS: runner sets it",
        "5: tee: runner keeps the log",
    ]

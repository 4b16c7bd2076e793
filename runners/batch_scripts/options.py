"""The options of the programs that batch scripts use: which take a value, and short forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .words import Word, literal, made

# Other names of an option.
SAME = {"tasks-per-node": "ntasks-per-node", "workdir": "chdir"}


@dataclass(frozen=True)
class Grammar:
    """A program's options. `values` take one, `pairs` two; `short` has the letters' long names.

    Behind one of `last` come no more options. `single`: long options may have one dash (`-np 4`).
    `dashes`: an underscore is a dash.
    """

    values: frozenset[str]
    flags: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict)
    pairs: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    single: bool = False
    dashes: bool = False

    def name(self, text: str) -> str:
        """Return an option's full name; a beginning that fits one long option stands for it."""
        text = text.replace("_", "-") if self.dashes else text
        known = self.values | self.flags | self.pairs
        fits = [name for name in known if name.startswith(text)]
        text = fits[0] if text not in known and len(fits) == 1 and len(text) > 2 else text
        return SAME.get(text, text)


@dataclass(frozen=True)
class Option:
    name: str
    value: Word | None
    line: int

    @property
    def text(self) -> str:
        return self.value.text if self.value else ""


@dataclass(frozen=True)
class Options:
    """Options that were read, the words after them, and why the reading stopped early."""

    options: tuple[Option, ...] = ()
    rest: tuple[Word, ...] = ()
    problem: str = ""

    def get(self, *names: str) -> Word | None:
        """Return the last value of an option of these names."""
        values = [option.value for option in self.options if option.name in names]
        return values[-1] if values else None

    def all(self, *names: str) -> Iterator[Option]:
        return (option for option in self.options if option.name in names)

    def has(self, *names: str) -> bool:
        return any(option.name in names for option in self.options)


def grammar(
    values: str,
    flags: str = "",
    short: str = "",
    pairs: str = "",
    last: str = "",
    single: bool = False,
    dashes: bool = False,
) -> Grammar:
    letters = dict(each.split("=") for each in short.split())
    words = [frozenset(text.split()) for text in (values, flags, pairs, last)]
    return Grammar(words[0], words[1], letters, words[2], words[3], single, dashes)


def read(words: Sequence[Word], known: Grammar) -> Options:
    """Read the options before the first word that is none."""
    options: list[Option] = []
    left = list(words)
    while left:
        word = left[0]
        if word.text == "--":
            return Options(tuple(options), tuple(left[1:]))
        if word.unknown and not word.start and "/" not in word.text:
            problem = f"{word.text} may be options; only the run knows" if len(left) > 1 else ""
            return Options(tuple(options), tuple(left), problem)
        if not word.start.startswith("-") or word.text == "-":
            break
        option, used = _one(left, known)
        if option is None:
            return Options(tuple(options), tuple(left), f"the option {word.text} is not known")
        options.append(option)
        left = left[used:]
        if option.name in known.last:
            break
    return Options(tuple(options), tuple(left))


def _one(left: Sequence[Word], known: Grammar) -> tuple[Option | None, int]:
    """Return the first option and how many words it takes; None for one that is not known."""
    word, following = left[0], (left[1] if len(left) > 1 else None)
    dashes = 2 if word.start.startswith("--") else 1
    head, *tail = word.split("=", 1)
    name = known.name(head.text[dashes:])
    value = tail[0] if tail else None
    if dashes == 1 and not (known.single and _is_long(name, known)):
        return _short(word, following, known)
    if value is None and name in known.pairs:
        pair = made((*left[1].pieces, "=", *left[2].pieces), word.line) if len(left) > 2 else None
        return Option(name, pair, word.line), 3
    if value is None and name in known.values:
        return Option(name, following, word.line), 2
    if value is not None or name in known.flags:
        return Option(name, value, word.line), 1
    return None, 1


def _is_long(name: str, known: Grammar) -> bool:
    return name in known.values or name in known.flags or name in known.pairs


def _short(word: Word, following: Word | None, known: Grammar) -> tuple[Option | None, int]:
    """Read -n 4, -n4, -n=4 and flags such as -lu."""
    letters = word.start[1:]
    name = known.short.get(letters[:1])
    if name is None:
        return None, 1
    rest = made((letters[1:], *word.pieces[1:]), word.line)
    if name in known.values:
        if not rest.pieces:
            return Option(name, following, word.line), 2
        return Option(name, rest, word.line), 1
    if rest.pieces and all(known.short.get(letter) in known.flags for letter in letters):
        return Option(name, literal("", word.line), word.line), 1
    return (None if rest.pieces else Option(name, None, word.line)), 1


SLURM = grammar(
    "account acctg-freq array bcast batch bb bbf begin chdir cluster-constraint clusters comment"
    " constraint container container-id container-image container-mounts container-name"
    " container-workdir container-env container-mount-home core-spec cores-per-socket cpu-bind"
    " cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution epilog error"
    " exclude export export-file extra extra-node-info gpu-bind gpu-freq gpus gpus-per-node"
    " gpus-per-socket gpus-per-task gres gres-flags het-group hint input job-name jobid licenses"
    " mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi msg-timeout"
    " network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node"
    " ntasks-per-socket open-mode output partition power prefer priority profile prolog qos"
    " relative reservation signal slurmd-debug sockets-per-node switches task-epilog task-prolog"
    " thread-spec threads threads-per-core time time-min tmp tres-per-task tres-bind uid gid"
    " wait-all-nodes wait wckey wrap accel-bind tasks-per-node workdir container-save image module"
    " volume",
    "exclusive no-requeue requeue hold immediate overcommit oversubscribe spread-job use-min-nodes"
    " contiguous disable-status exact interactive kill-on-bad-exit label mem-bind multi-prog"
    " no-allocate no-kill overlap preserve-env propagate pty quiet quit-on-interrupt reboot"
    " resv-ports unbuffered verbose ignore-pbs kill-on-invalid-dep get-user-env nice parsable"
    " test-only no-container-mount-home container-readonly container-writable container-remap-root"
    " no-container-remap-root container-entrypoint no-container-entrypoint",
    "A=account a=array B=extra-node-info b=begin C=constraint c=cpus-per-task D=chdir d=dependency"
    " e=error F=nodefile G=gpus H=hold I=immediate i=input J=job-name K=kill-on-bad-exit"
    " k=no-kill L=licenses l=label M=clusters m=distribution N=nodes n=ntasks O=overcommit"
    " o=output p=partition q=qos Q=quiet r=relative s=oversubscribe S=core-spec T=threads t=time"
    " u=unbuffered v=verbose W=wait w=nodelist X=disable-status x=exclude Z=no-allocate",
    dashes=True,
)
APPTAINER = grammar(
    "add-caps app apply-cgroups bind blkio-weight cpus cpuset-cpus cpuset-mems device"
    " dns docker-host drop-caps env env-file fusemount home hostname memory mount"
    " network network-args no-mount"
    " overlay pem-path pwd cwd scratch security workdir",
    "allow-setuid cleanenv compat contain containall disable-cache docker-login fakeroot ipc"
    " keep-privs net no-eval no-home no-https no-init no-pid no-privs no-umask nohttps nv nvccli"
    " passphrase pid rocm sharens unsquash userns uts writable writable-tmpfs sparse no-env data"
    " underlay ignore-fakeroot-command",
    "B=bind C=containall c=contain e=cleanenv f=fakeroot H=home i=ipc n=net o=overlay p=pid"
    " S=scratch u=userns W=workdir w=writable",
)
SHIFTER = grammar(
    "image volume module env env-file workdir cwd",
    "entrypoint clearenv verbose",
    "i=image V=volume m=module e=env w=workdir E=clearenv v=verbose",
)
PODMAN = grammar(
    "annotation add-host cpus cap-add cap-drop device entrypoint env env-file group-add gpus"
    " hostname ipc memory mount name net network pid pull runtime security-opt shm-size tmpfs"
    " ulimit user userns volume volumes workdir",
    "gpu mpi cuda-mpi nccl interactive tty rm privileged read-only init cvmfs shared-run"
    " openmpi-pmi2 openmpi-pmix detach quiet env-host",
    "e=env v=volume w=workdir i=interactive t=tty d=detach u=user h=hostname q=quiet",
)
MPIRUN = grammar(
    "n np c N npernode ppn host H hostfile machinefile f x map-by bind-to rank-by wdir wd output"
    " output-filename path prefix rf rankfile tune am app timeout max-restarts launcher iface"
    " bootstrap hosts perhost env envlist depth d cpu-bind cc mem-bind gpu-bind line-buffer"
    " soft ppr personality pmixmca-file cpus-per-proc cpus-per-rank report-state-on-timeout j e"
    " tag-output-format",
    "exclusive allow-run-as-root oversubscribe nooversubscribe report-bindings tag-output"
    " timestamp-output"
    " bind-to-core bynode byslot bycore bysocket display-map display-allocation use-hwthread-cpus"
    " verbose v q quiet envall genvall genvnone display-devel-map novm nolocal pernode l label"
    " line-label no-transfer merge-stderr-to-stdout",
    pairs="mca gmca pmixmca prtemca genv env-pair",
    single=True,
)
HOROVODRUN = grammar(
    "num-proc np H hosts hostfile ssh-port ssh-identity-file network-interfaces network-interface"
    " output-filename start-timeout config-file fusion-threshold-mb cycle-time-ms cache-capacity"
    " timeline-filename autotune-log-file autotune-warmup-samples autotune-steps-per-sample"
    " autotune-bayes-opt-max-samples autotune-gaussian-process-noise min-np max-np num-slots"
    " min-num-proc max-num-proc slots-per-host slots elastic-timeout reset-limit"
    " host-discovery-script blacklist-cooldown-range log-level mpi-args nics"
    " stall-check-warning-time-seconds stall-check-shutdown-time-seconds binding-args"
    " gloo-timeout-seconds mpi-threads-disable thread-affinity num-nccl-streams",
    "gloo mpi jsrun verbose autotune timeline-mark-cycles hierarchical-allreduce"
    " hierarchical-allgather no-stall-check tcp disable-cache check-build log-with-timestamp"
    " no-hierarchical-allreduce prefix-output-with-timestamp log-without-timestamp",
    single=True,
)
TORCHRUN = grammar(
    "nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts"
    " monitor-interval start-method role log-dir redirects tee local-ranks-filter node-rank"
    " master-addr master-port local-addr logs-specs event-log-handler numa-binding"
    " signals-to-handle duplicate-stdout-filters duplicate-stderr-filters local-rank",
    "standalone use-env m module no-python run-path virtual-local-rank",
    "t=tee r=redirects",
    single=True,
    dashes=True,
)
ACCELERATE = grammar(
    "config-file num-processes num-machines machine-rank main-process-ip main-process-port"
    " same-network-value mixed-precision dynamo-backend dynamo-mode num-cpu-threads-per-process"
    " gpu-ids rdzv-backend rdzv-conf max-restarts monitor-interval main-training-function"
    " deepspeed-config-file zero-stage offload-optimizer-device offload-param-device"
    " offload-optimizer-nvme-path offload-param-nvme-path gradient-accumulation-steps"
    " gradient-clipping zero3-init-flag zero3-save-16bit-model deepspeed-hostfile"
    " deepspeed-exclusion-filter deepspeed-inclusion-filter deepspeed-multinode-launcher"
    " deepspeed-moe-layer-cls-names fsdp-version fsdp-offload-params fsdp-min-num-params"
    " fsdp-sharding-strategy fsdp-reshard-after-forward fsdp-auto-wrap-policy"
    " fsdp-transformer-layer-cls-to-wrap fsdp-backward-prefetch fsdp-state-dict-type"
    " fsdp-forward-prefetch fsdp-use-orig-params fsdp-cpu-ram-efficient-loading"
    " fsdp-sync-module-states fsdp-activation-checkpointing log-dir role tee dynamo-use-dynamic",
    "cpu multi-gpu tpu ipex use-deepspeed use-fsdp use-megatron-lm debug m module no-python"
    " same-network quiet dynamo-use-fullgraph enable-cpu-affinity no-tpu-cluster mps use-xpu",
    "m=module q=quiet",
    dashes=True,
)
DEEPSPEED = grammar(
    "hostfile include exclude num-nodes num-gpus master-addr master-port launcher launcher-args"
    " autotuning elastic-training min-elastic-nodes max-elastic-nodes ssh-port node-rank"
    " bind-core-list enable-each-rank-log venv-script",
    "module no-python no-local-rank no-ssh-check force-multi no-ssh save-pid bind-cores-to-rank",
    "H=hostfile i=include e=exclude",
    dashes=True,
)
PYTHON = grammar("W X m c", "u O OO B E s S I q v b d x P", last="m c", single=True)

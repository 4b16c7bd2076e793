"""Trainings that are hard to judge (`worlds/judged.py`): wrong ones never end as equal, right ones
are never ended. Two ranks of one container, started by the shim itself.
"""

from __future__ import annotations

import json

import pytest

from .conftest import UNPACKED, Login
from .test_one_model import SCRIPTS, two_ranks

pytestmark = pytest.mark.unpacked

SLOW = pytest.mark.slow
DIFFERENT, NOT_CHECKED, EQUAL, COPIES = "different", "not-checked", "equal", "copies"
# What weights.json has, and words of the log. Those of the default lane come first.
OFTEN = {
    "skips_bad_batches": (DIFFERENT, "a rank skipped steps that the others made"),
    "many_optimizers": (DIFFERENT, "the ranks train different models: after 5 steps"),
    "layer_added_late": (DIFFERENT, "parameter 4 differs"),
    "broadcast_every_8_steps": (DIFFERENT, "rank 0's weights replace all others'"),
    "metric_sent": (DIFFERENT, "the model is not wrapped"),
    "warm_up_30": (EQUAL, "weights equal on all ranks"),
    "tensor_parallel_by_hand": (NOT_CHECKED, "(tensor parallelism)\nrunner: warning: "),
}
WRONG = {
    "metric_reduced": (DIFFERENT, "the model is not wrapped"),
    "barrier_then_100_steps": (DIFFERENT, "after 65 steps"),
    "validated_every_20_steps": (DIFFERENT, "after 65 steps"),
    "loss_averaged_before_backward": (DIFFERENT, "the model is not wrapped"),
    "other_numbers_of_batches": (DIFFERENT, "the model is not wrapped"),
    "metrics_sent": (DIFFERENT, "the model is not wrapped"),
    "counts_to_all": (DIFFERENT, "the model is not wrapped"),
    "broadcast_and_metric": (DIFFERENT, "rank 0's weights replace all others'"),
    "broadcast_every_step": (EQUAL, "warning: rank 0's weights replace all others'"),
    "averaged_after_the_step": (DIFFERENT, "the model is not wrapped"),
    "contrastive_not_wrapped": (DIFFERENT, "the model is not wrapped"),
    "skips_an_early_batch": (DIFFERENT, "a rank skipped steps that the others made"),
    "many_optimizers_with_schedulers": (DIFFERENT, "after 5 steps"),
    "unfrozen_later": (DIFFERENT, "0.weight differs"),
    "unfrozen_by_a_group": (DIFFERENT, "parameter 2 differs"),
    "around_ddp_later": (DIFFERENT, "after 120 steps"),
    "own_learning_rates": (DIFFERENT, "another learning rate"),
    "own_noise": (DIFFERENT, "a rank's steps are its own"),
    "momentum_on_rank_0": (DIFFERENT, "optimizer state that other ranks lack"),
    "loaded_on_rank_0_after_ddp": (DIFFERENT, "after DDP had made them equal"),
    "a_bias_not_averaged": (DIFFERENT, "2.bias differs"),
    "second_model_not_wrapped": (DIFFERENT, "differs"),
    "head_replaced_after_ddp": (DIFFERENT, "2.weight is not in the model that DDP wraps"),
    "hook_that_does_nothing": (DIFFERENT, "differs"),
    "no_sync_around_backward": (DIFFERENT, "inside no_sync()"),
    "group_in_a_child": (NOT_CHECKED, "in a process that is in no process group"),
    "states_of_rank_1_handed_on": (DIFFERENT, "rank 1's weights replace all others'"),
    "a_file_of_rank_0_loaded_by_all": (DIFFERENT, "rank 0's weights replace all others'"),
    "forty_folds_not_wrapped": (DIFFERENT, "the model is not wrapped"),
    "metrics_as_objects_sent": (DIFFERENT, "the model is not wrapped"),
    "frozen_and_unfrozen_in_turn": (DIFFERENT, "0.weight is not in the model that DDP wraps"),
    "own_weight_decay": (DIFFERENT, "a rank's steps are its own"),
    "gathered_features_not_wrapped": (DIFFERENT, "the model is not wrapped"),
    "same_data_other_masks": (COPIES, "warning: three inputs of the model are equal"),
    "hvd_metric_reduced": (DIFFERENT, "after 65 steps"),
    "hvd_loaded_on_rank_0": (DIFFERENT, "the ranks began with different weights"),
    "hvd_broadcast_every_8_steps": (DIFFERENT, "rank 0's weights replace all others'"),
    "hvd_same_data_other_masks": (COPIES, "warning: three inputs of the model are equal"),
}
RIGHT = {
    "warm_up_5": (EQUAL, ""),
    "warm_up_100": (EQUAL, ""),
    "warm_up_of_its_own_optimizer": (EQUAL, "after 80 steps"),
    "all_warm_up": (EQUAL, ""),
    "learning_rate_finder": (EQUAL, ""),
    "rank_0_goes_on_alone": (NOT_CHECKED, "rank 0 made 6 steps after the last exchange"),
    "probe_on_rank_0": (EQUAL, "after 40 steps"),
    "inner_loops": (EQUAL, "after 24 steps; 9 more optimizers were not watched"),
    "all_skip_together": (EQUAL, "after 69 steps"),
    "averaged_by_hand": (EQUAL, "after 80 steps"),
    "averaged_in_hooks": (EQUAL, "after 80 steps"),
    "local_sgd_and_metric": (NOT_CHECKED, "now and then (local SGD)"),
    "local_sgd_every_16_steps": (NOT_CHECKED, "now and then (local SGD)"),
    "local_sgd_later": (NOT_CHECKED, "now and then (local SGD)"),
    "compressed_by_powersgd": (EQUAL, "after 40 steps"),
    "tensor_parallel_in_few_steps": (NOT_CHECKED, "(tensor parallelism)"),
    "tensor_parallel_by_nn_functional": (NOT_CHECKED, "(tensor parallelism)"),
    "pipeline": (NOT_CHECKED, "ranks send each other tensors"),
    "gossip": (NOT_CHECKED, "ranks send each other tensors"),
    "embeddings_of_each_rank": (NOT_CHECKED, "DDP leaves out parameters"),
    "two_networks_in_turn": (EQUAL, ""),
    "twenty_folds": (EQUAL, "after 5 steps"),
    "lbfgs": (EQUAL, "after 10 steps"),
    "averages_on_rank_0_at_the_end": (EQUAL, "after 80 steps"),
    "layer_added_and_wrapped": (EQUAL, "after 40 steps"),
    "unfrozen_and_wrapped_again": (EQUAL, ""),
    "own_slices_of_one_batch": (EQUAL, "after 40 steps"),
    "uneven_inputs": (EQUAL, ""),
    "warm_up_and_all_states": (EQUAL, ""),
    "ring_of_gradients": (EQUAL, "after 80 steps"),
    "reduced_and_broadcast": (EQUAL, "after 80 steps"),
    "calibrated_on_rank_0": (EQUAL, "after 80 steps"),
    "experts_by_gathering": (NOT_CHECKED, "layers exchange what they compute"),
    "two_groups_one_after_another": (EQUAL, "after 80 steps"),
    "averaged_once_more_after_training": (EQUAL, "after 44 steps"),
    "bound_to_buckets_and_static": (EQUAL, "after 80 steps"),
    "averaged_by_wrapped_optimizer": (NOT_CHECKED, "now and then (local SGD)"),
    "hvd_warm_up": (EQUAL, "after 80 steps"),
    "hvd_warm_up_of_the_same_optimizer": (EQUAL, ""),
    "hvd_local_sgd": (NOT_CHECKED, "now and then (local SGD)"),
    "hvd_uneven_and_broadcast": (EQUAL, ""),
    "mpi_warm_up": (EQUAL, ""),
}
WITH_TENSORFLOW = {
    "tape_without_optimizer": (DIFFERENT, "the tape is not wrapped"),
    "tape_without_optimizer_in_a_graph": (DIFFERENT, "the tape is not wrapped"),
    "keras_on_torch": (DIFFERENT, "try: model = DistributedDataParallel(model)"),
    "wrapped_tape_without_optimizer": (EQUAL, "(at the end)"),
    "tape_averaged_by_hand": (EQUAL, "(at the end)"),
    "an_input_of_each_rank": (EQUAL, "(at the end)"),
}
CONTROLLERS = {"hvd": "gloo", "mpi": "mpi"}  # by the first letters of a name


@pytest.mark.parametrize(
    "name",
    [
        *OFTEN,
        *(pytest.param(name, marks=SLOW) for name in (*WRONG, *RIGHT, *WITH_TENSORFLOW)),
    ],
)
def test_wrong_trainings_are_told_and_right_ones_are_not_ended(login: Login, name: str) -> None:
    result, words = {**OFTEN, **WRONG, **RIGHT, **WITH_TENSORFLOW}[name]
    script = "judged_tf.py" if name in WITH_TENSORFLOW else "judged.py"
    login.write_all(SCRIPTS / file for file in ("trainings.py", script))
    login.sh("cp -r /opt/kit/runners/injob injob; cp -r /opt/kit/runners/contract injob")
    controller = CONTROLLERS.get(name[:3], "none")
    if name in WITH_TENSORFLOW and name != "keras_on_torch":
        controller = "gloo"
    done = two_ranks(login, controller, script, name, image=UNPACKED)
    assert done.returncode == (95 if result == DIFFERENT else 0), done.stdout
    assert json.loads(login.sh("cat run/weights.json"))["result"] == result
    assert words in done.stdout
    offered = done.stdout.find("runner launch --no-gate")
    assert (offered > done.stdout.find("  try: ") >= 0) is (result == DIFFERENT)

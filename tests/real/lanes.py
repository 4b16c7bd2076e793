"""`make test` runs one real test of each mechanism, `make test-real` the others.

Those marked `slow` are in neither: `make test-all` runs them too.
"""

from __future__ import annotations

FIRST = "first"  # the mark of the tests below: pytest -m first

# Mechanism -> the test that shows it for real, on the cluster and with the image
MECHANISMS = {
    "launch over Gloo, one world": "test_launch.py::"
    "test_recipes_form_one_world_over_two_nodes_and_have_one_model[torch_mnist-gloo-1]",
    "launch over MPI, TensorFlow": "test_launch.py::"
    "test_recipes_form_one_world_over_two_nodes_and_have_one_model[tf_mnist-mpi-1]",
    "torchrun over two nodes": "test_worlds.py::test_one_world_over_two_nodes[torchrun]",
    "ranks that are each alone are ended": "test_launch.py::"
    "TestWorldSizeGate::test_silent_singletons",
    "different models are ended": "test_one_model.py::"
    "test_different_models_end_with_95_and_what_to_change[around_ddp]",
    "a right training is no alarm": "test_one_model.py::test_right_trainings_are_no_alarm[Horovod]",
    "dry run is what is submitted": "test_launch.py::"
    "test_dry_run_is_what_is_submitted_and_it_runs_by_hand",
    "GPUs are requested": "test_launch.py::test_gpu_jobs_ask_slurm_for_gpus",
    "a failure is explained": "test_explain.py::test_a_followed_job_explains_itself_at_its_end",
    "follow": "test_watch.py::test_logs_of_one_rank_and_follow",
    "cancel": "test_watch.py::test_cancel",
    "requeue and resume": "test_resume.py::"
    "test_a_preempted_job_ends_like_one_that_was_not[torch_mnist]",
    "data is packed and bound": "test_data.py::test_packed_and_bound_by_odd_names",
    "data is staged": "test_data.py::test_staged_on_two_nodes_and_gone_after_a_failure",
    "array": "test_many.py::test_a_sweep_of_hostile_values_is_one_array_with_a_folder_for_each",
    "derived image": "test_build_derived.py::test_packages_are_added_with_what_they_need",
    "pull from a registry": "test_registry.py::test_a_launch_pulls_before_it_submits",
    "a site's Slurm": "test_sites.py::test_its_slurm_accepts_the_script_and_runs_it[neuron]",
    "another user's settings": "security/test_foreign_files.py::"
    "test_settings_of_bobs_are_refused_until_ada_trusts_them",
    "another user's folder on a node": "security/test_staging.py::"
    "test_who_watches_for_the_name_comes_too_late",
    "secrets": "security/test_secrets.py::test_nor_has_a_shell_with_ssh_nor_exec",
    "the first hour": "test_docs.py::test_every_command_of_a_page[docs/start/first-hour.md]",
    "the README": "test_docs.py::test_every_command_of_a_page[README.md]",
    "the Python API": "test_api.py::test_each_call",
}


def is_first(nodeid: str) -> bool:
    """Whether `make test` runs this test."""
    return name(nodeid) in _FIRST


def name(nodeid: str) -> str:
    return nodeid[len("tests/real/") :]


_FIRST = frozenset(MECHANISMS.values())

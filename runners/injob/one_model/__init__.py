"""The check that all ranks train one model: what each rank reports of its weights, and the verdict.

In the trainer's processes `watch_torch` and `watch_keras` report checksums of an optimizer's
parameters (`model_facts`, `parameters`; `weights` defines a report), at moments that `exchanges`
counts. Rank 0's shim collects them (`weight_reports`), judges them (`judge_weights`), and names the
cause of different models (`weight_causes`). Nothing here knows the shim, `rank/`.
"""

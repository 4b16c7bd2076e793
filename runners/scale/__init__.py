"""Scaling studies: the same training on more and more nodes, measured, drawn and judged.

`study_request` is what is asked, `study` what lies on disk, `drafts` plans the runs, `run_study`
gets them done. `measure` reads one run; `confidence`, `summary`, `cautions` and `report` are the
statistics, all pure; `references` has published results, `results` writes the tables. `plot` draws
and needs matplotlib: import it late. `compare` is for any runs, without a study; `ranking` tells
which is the best.
"""

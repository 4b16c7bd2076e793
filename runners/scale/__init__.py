"""Scaling studies: the same training on more and more nodes, measured, drawn and judged.

`question` is what is asked, `study` what lies on disk, `running` and `allocation` get it done.
`measure` reads one run; `student`, `summary`, `fits` and `cautions` are the statistics, all pure;
`tables`, `plot` and `page` show them. Only `plot` and `page` need the extra packages.
"""

"""Why a job failed: cause, evidence, a command that fixes it, and how sure that is.

`read_facts` reads the run's folder, `judge` asks the signatures what they make of it. A new kind of
failure is a row of a table, or one pure function, in one of the modules that `judge` lists.
"""

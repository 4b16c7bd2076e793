"""Why a job failed: cause, evidence, a command that fixes it, and how sure that is.

`read_facts` reads the run's folder, `judge` asks the signatures what they make of it. A new kind of
failure is an entry of a file in `signatures`, or one pure function in a module that `judge` lists.
"""

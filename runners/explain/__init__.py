"""Why a job failed: cause, evidence, a command that mends it, and how sure that is.

`read_facts` reads the run's folder, `judge` asks the signatures of `signatures` what they make of
it. A new kind of failure is one pure function in one of the modules that `signatures` lists.
"""

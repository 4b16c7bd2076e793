"""The doctor: what this machine, an image and a short real job say, each as a finding.

A module of `checks` asks the machine about its subject (`probe`) and turns the facts into findings
(`check`, pure); `trial_job` submits the short job, and `injob.trial` is what runs in it.
`checks.check_image` and `checks.job` turn what an inspection and the trial brought into findings.
"""

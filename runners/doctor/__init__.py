"""The doctor: what this machine, an image and a short real job say, each as a finding.

A module of `checks` asks the machine about its subject (`look`) and turns the facts into findings
(`check`, pure); `injob.trial` is what runs in the job.
"""

"""The doctor: what this machine, an image and a short real job say, each as a finding.

`facts` asks the machine, `checks` turn facts into findings, `trial` is what runs in the job.
"""

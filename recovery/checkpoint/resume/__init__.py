"""Resume: whether a run that was saved and restored goes on as one that was never interrupted.

`verifying` is what is asked and answered; each part runs in a process of its own, which `resuming` is and `parting` starts.
"""

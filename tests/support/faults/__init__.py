"""Real processes of Penstock that die, once, where a test says: `python -m tests.support.faults FOLDER MODULE ARGS`.

The launcher wraps the ports that a process acts through (`syncer`, `manager`, `host`) and then runs the module as
`python -m` would. Each wrapped call asks the test's folder whether this is the place (`orders`); the first process
that finds it is kills itself with SIGKILL. Product code knows nothing of it.
"""

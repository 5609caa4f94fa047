"""Chaos over real processes: random but seeded faults of the network and of processes.

`proxy` stands between the processes and can cut, delay and reset their connections; `stack` is the stack that runs
through it; `timetable` draws the faults from a seed; `perform` brings them about; `jobs` are what has to stay exact.
"""

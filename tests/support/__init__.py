"""What tests share, in rooms named as those of the product.

- A service's own: `job_service`, `shard_manager`, `state_syncer`, `task_manager`.
- A library's own: `cli`, `config`, `control`, `spark`, `store`; `kafka` for topics and the project's source and sink.
- `memory`: the job store in memory, in forms that pass the contract suites of the real one.
- `stack`: jobs on a whole stack whose result is easy to judge; `chaos` and `faults`: stacks whose parts fail.
- `exactly_once`: processes of plain queries that are killed; `bench`: what the small forms of benches are held to.
"""

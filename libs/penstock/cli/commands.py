"""All commands of `penstock`, in the order of its help. To add a command: write its function, and add a row here."""

from __future__ import annotations

from penstock.cli.lazy import Command

GROUPS = {
    "jobs": "Create, change, list and delete jobs.",
    "layers": "Read and write the configuration layers of a job; list, add, change and remove layers of the cell.",
    "silences": "Leave alerts out of the list for a while.",
    "savepoint": "Take, list, restore and delete savepoints of a job.",
    "rollout": "Look at, pause, continue and give up rollouts of packages.",
    "tokens": "Manage the tokens with which tools and people call the Job Service.",
    "secrets": "Say which jobs may use which secret. Their values are files of the containers.",
    "packages": "Pack Python code for jobs.",
    "certificates": "Issue and renew the certificates by which processes of a cell know each other.",
    "topics": "Create, list, feed, read and delete Kafka topics.",
}

_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

COMMANDS = (
    Command(
        "jobs list",
        "job_list:list_",
        "List all jobs by name, and below the table the reason for each job that has one.",
    ),
    Command(
        "jobs show",
        "jobs:show",
        "Show one job as JSON: merged configuration, layer versions, state, health with the whole reason.",
        is_document=True,
    ),
    Command("jobs apply", "jobs:apply", "Create a job, or replace its base layer."),
    Command("apply", "apply:apply", "Create and change the jobs of a folder, and report what differs from the cell."),
    Command("jobs stop", "desired:stop", "Stop the tasks of a job. `jobs start` continues where they stopped."),
    Command(
        "jobs start", "desired:start", "Start the tasks of a job that was stopped. They continue where they stopped."
    ),
    Command("jobs delete", "jobs:delete", "Stop the tasks of a job, then delete the job. Its history is kept."),
    Command(
        "jobs profile",
        "profile:profile",
        "Measure how many rows per second one task of a job gets through, in a run that writes nothing.",
    ),
    Command(
        "jobs files",
        "output_files:files",
        "Print the committed files of a job's output of type `files`, on this machine. Read these, and no others.",
    ),
    Command("layers show", "layers:show", "Show one layer of a job as JSON.", is_document=True),
    Command("layers patch", "layers:patch", "Merge a change into a layer. A null removes a key."),
    Command(
        "layers edit",
        "edit:edit",
        "Edit a layer of a job in $VISUAL or $EDITOR. Refused if somebody has written it meanwhile; the text is kept.",
    ),
    Command("layers drop", "layers:drop", "Remove a layer from a job. The values that it hid apply again."),
    Command("layers list", "cell:layers", "List the layers of the cell, lowest first."),
    Command("layers add", "cell:add_layer", "Add a layer to the cell."),
    Command(
        "layers change",
        "cell:change_layer",
        "Change a layer of the cell. A rank is refused that would change the configuration of a job.",
    ),
    Command(
        "layers remove", "cell:remove_layer", "Remove a layer from the cell. Refused while a job has something in it."
    ),
    Command(
        "override", "layers:override", "Override settings of a job in the `oncall` layer, with a reason and an expiry."
    ),
    Command(
        "explain",
        "layers:explain",
        "Show for each field its value, who set it, when and why, and which values it hides.",
    ),
    Command(
        "plan",
        "layers:plan",
        "Show what a change would do, without making it. Exit code 1: it would be refused; 5: nobody has checked it.",
    ),
    Command(
        "history",
        "layers:history",
        "Show who changed what, when and why, newest first: of a job, or of the cell without one.",
    ),
    Command(
        "events",
        "events:events",
        "Follow every write to a job, or to all jobs, as it comes. Ctrl-C ends it.",
    ),
    Command("revert", "layers:revert", "Set a layer back to its content at an earlier version."),
    Command("restart", "jobs:restart", "Restart the tasks of a job. Their state is kept."),
    Command("release", "jobs:release", "Release a job from quarantine: the State Syncer tries its change again."),
    Command(
        "tasks",
        "jobs:tasks",
        "List the tasks of a job, and below the table the error of each task that does not run well.",
    ),
    Command("logs", "logs:logs", "Show the log of the Spark host that runs a task, or ran it last; -f follows it."),
    Command("why", "why:why", "Say what is wrong with a job: causes with what shows them, the likeliest first."),
    Command(
        "lineage",
        "lineage:lineage",
        "Show the jobs upstream and downstream of a job, with the topics between them: health, lag and rate of each.",
    ),
    Command(
        "metrics",
        "metrics:metrics",
        "Show what a job measured lately: the last known value, the least, the mean and the greatest, and the course.",
    ),
    Command(
        "sync",
        "jobs:sync",
        "Show how far a job is from its expected configuration, and what blocks it, as JSON.",
        is_document=True,
    ),
    Command(
        "watch",
        "watch:watch",
        "Watch a change of a job until all its tasks run it: each stage of the revision, with the time since the "
        "command began.",
    ),
    Command("rescale", "rescale:rescale", "Change the number of tasks of a job. No row is lost or counted twice."),
    Command(
        "rebalance",
        "rescale:rebalance",
        "Give each task of a job an equal share of the input, by the measured traffic.",
    ),
    Command("savepoint create", "savepoint:create", "Copy the checkpoints of a job while the job runs."),
    Command(
        "import",
        "savepoint:import_",
        "Start a job from the checkpoint of an ordinary Spark application: its offsets and state move in.",
    ),
    Command("savepoint list", "savepoint:list_", "List the newest savepoints of a job."),
    Command("savepoint show", "savepoint:show", "Show one savepoint as JSON.", is_document=True),
    Command(
        "savepoint restore",
        "savepoint:restore",
        "Set a job back to a savepoint, or start it from a savepoint of another job.",
    ),
    Command(
        "savepoint cancel-restore",
        "savepoint:cancel_restore",
        "Cancel a restore that is not committed yet: the job continues from its own checkpoints.",
    ),
    Command("savepoint delete", "savepoint:delete", "Delete a savepoint and its files."),
    Command("rollout show", "rollout:show", "Show how far a package has gone out, as JSON.", is_document=True),
    Command("rollout pause", "rollout:pause", "Begin no further wave of a rollout. Upgraded tasks keep the package."),
    Command("rollout resume", "rollout:resume", "Continue a rollout that was paused."),
    Command(
        "rollout abort",
        "rollout:abort",
        "Give a rollout up: all tasks go back to the package before, by the layer `rollback`.",
    ),
    Command("shards", "cluster:shards", "Show how many shards each container owns, or change the number of shards."),
    Command("alerts", "alerts:alerts", "List open alerts, newest first."),
    Command(
        "acknowledge", "alerts:acknowledge", "Say that you work on an alert. It stays in the list, with your name."
    ),
    Command("silences list", "alerts:silences", "List silences, newest first."),
    Command(
        "silences create",
        "alerts:create_silence",
        "Leave alerts out of the list for a while. They are raised and recorded as always.",
    ),
    Command("silences end", "alerts:end_silence", "End a silence. The alerts that it left out are listed again."),
    Command(
        "leaders",
        "cell:leaders",
        "List the leader of each loop: its address, its epoch, since when it leads, when its lease ends.",
    ),
    Command("status", "status:status", "Show whether all parts of Penstock are well. Exit code 1: one is not."),
    Command(
        "doctor",
        "doctor:doctor",
        "Check Java, disk, certificates, Postgres, migrations, Kafka, clocks, the token and the cell; say what to do.",
    ),
    Command(
        "fields",
        "cluster:fields",
        "Show the sections of a job's configuration, or of fields the default, who may set it, cost of a change.",
    ),
    Command(
        "descriptor",
        "descriptor:descriptor",
        "Print what an input or output of Protobuf has in its job: the message, and a descriptor set as base64.",
    ),
    Command("decisions", "cluster:decisions", "List what the Auto Scaler decided about a job, newest first."),
    Command(
        "replay",
        "replay:replay",
        "Show what another scaling policy would have done to jobs: SLO minutes missed, task-hours, actions.",
    ),
    Command("top", "top:top", "Show a live table of all jobs, the least healthy first. Ctrl-C, or the key q, ends it."),
    Command(
        "containers",
        "containers:containers",
        "List containers: state, load, shards, tasks, age of the lease. Of one also its tasks, of which job each is.",
    ),
    Command(
        "cordon",
        "containers:cordon",
        "Give a container no new shards. It keeps the shards that it has. If it is being drained, the drain ends.",
    ),
    Command("move", "containers:move", "Move a task that is slow where it runs to another container, with its shard."),
    Command("drain", "containers:drain", "Move all shards of a container to other containers."),
    Command(
        "uncordon", "containers:uncordon", "Let a container take shards again. If it is being drained, the drain ends."
    ),
    Command("forget", "containers:forget", "Forget a container that is lost. If it comes back, it is new."),
    Command("tokens create", "tokens:create", "Create a token and print it. It cannot be shown again."),
    Command(
        "tokens rotate",
        "tokens:rotate",
        "Give a token a new secret and print it. The one before stays good for a while.",
    ),
    Command("tokens list", "tokens:list_", "List all tokens, without their secrets."),
    Command("tokens revoke", "tokens:revoke", "Revoke a token. Calls with it are refused from now on."),
    Command("secrets list", "secrets:list_", "List all secrets with the jobs that may use them, without values."),
    Command(
        "secrets put",
        "secrets:put",
        "Say which jobs may use a secret, and no others. Refused while another job uses it.",
    ),
    Command(
        "secrets delete",
        "secrets:delete",
        "Let no job use a secret any more. Refused while one does. The files of the containers stay.",
    ),
    Command(
        "packages pack", "packages:pack", "Pack a folder of Python modules; print what to write as the job's `package`."
    ),
    Command("packages delete", "packages:delete", "Delete a version of a package. Refused while a job uses it."),
    Command(
        "topics create",
        "topics:create",
        "Create a Kafka topic. Its partitions are the key groups of the jobs that read it.",
    ),
    Command(
        "topics list",
        "topics:list_",
        "List all topics with their partitions and number of offsets. Transaction markers count as offsets too.",
    ),
    Command(
        "topics produce",
        "topics:produce",
        "Send lines to a topic, one record each: all of them in one transaction, or none.",
    ),
    Command(
        "topics consume",
        "topics:consume",
        "Print the committed records of a topic as JSON lines, or as base64 for `topics produce --format base64`.",
    ),
    Command(
        "topics peek",
        "topics:peek",
        "Print the last committed records of a topic by their time, or the first, and end. Nothing is committed.",
    ),
    Command(
        "topics delete", "topics:delete", "Delete a topic and all its records. Refused while a job reads or writes it."
    ),
    Command("certificates issue", "certificates:issue", "Issue a certificate for one process, or renew it."),
    Command(
        "certificates list",
        "certificates:list_",
        "List the certificates in the identity folder, those issued from it to other folders, and when they expire.",
    ),
    Command(
        "certificates rotate",
        "certificates:rotate",
        "Renew the secret of this machine and all certificates in the identity folder. Running processes take them.",
    ),
    Command(
        "init",
        "init:init",
        "Create or upgrade the job store and the identity of the cell, and print the first admin token once.",
    ),
    Command(
        "restored",
        "restored:restored",
        "After a restore of the job store, or a fail-over that lost commits: let no number be used twice.",
    ),
    Command(
        "up",
        "up:up",
        "Run Postgres, Kafka, all services and Task Managers on this machine. Ctrl-C, or SIGTERM, stops them.",
    ),
    Command(
        "demo",
        "demo:demo",
        "Run the demo: 336,776 flights through three jobs, with failures; check that results are exact.",
        _ANY_ARGUMENTS,
    ),
)

{{- /* Who calls whom inside the cell: the table "Who may call what" of libs/penstock/identity, and what `penstock
status` asks by the Job Service. */ -}}
{{- define "penstock.callers" -}}
job-service: {port: 7070, from: [auto-scaler, console, state-syncer], users: true}
state-syncer: {port: 7071, from: [job-service]}
task-service: {port: 7072, from: [job-service, task-manager]}
shard-manager: {port: 7073, from: [job-service, task-manager]}
auto-scaler: {port: 7074, from: [job-service]}
console: {port: 7077, from: [], users: true}
task-manager: {port: 7100, from: [job-service, shard-manager, state-syncer]}
{{- end }}

{{- /* What is outside the cell, by component. The console asks the Job Service alone. */ -}}
{{- define "penstock.outside" -}}
{{- $oauth := ternary ", oauth" "" (ne .Values.kafka.oauthTokenUrl "") -}}
{{- $registry := ternary ", schemaRegistry" "" (ne .Values.schemaRegistry.url "") -}}
job-service: [postgres, kafka{{ $oauth }}]
state-syncer: [postgres]
task-service: [postgres]
shard-manager: [postgres]
auto-scaler: [postgres]
console: []
task-manager: [postgres, kafka{{ $oauth }}{{ $registry }}]
{{- end }}

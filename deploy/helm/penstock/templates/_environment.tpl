{{- /* What one process of a service is given. Usage: (dict "root" $ "process" .) */ -}}
{{- define "penstock.environment" -}}
{{- $values := .root.Values -}}
{{- $service := .process.service -}}
{{- $own := printf "https://%s-%s:%d" .root.Release.Name .process.name (int .process.port) -}}
- {name: PENSTOCK_IDENTITY_DIR, value: /identity}
- {name: PENSTOCK_DATA_DIR, value: /tmp}
{{- if ne $service "console" }}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_DATABASE_URL" "name" $values.secrets.database.name "key" $values.secrets.database.serviceKey) }}
{{- end }}
{{- if has $service (list "console" "state_syncer" "auto_scaler") }}
- {name: PENSTOCK_JOB_SERVICE_URL, value: {{ include "penstock.urls" (dict "root" .root "service" "job_service") | quote }}}
{{- end }}
{{- if has $service (list "state_syncer" "shard_manager" "auto_scaler") }}
- {name: PENSTOCK_PUBLIC_URL, value: {{ $own | quote }}}
{{- end }}
{{- if eq $service "job_service" }}
- {name: PENSTOCK_TASK_SERVICE_URL, value: {{ include "penstock.urls" (dict "root" .root "service" "task_service") | quote }}}
- {name: PENSTOCK_KAFKA_BOOTSTRAP, value: {{ $values.kafka.bootstrap | quote }}}
{{- include "penstock.kafkaEnvironment" $values.kafka }}
- {name: PENSTOCK_PATH_ROOTS, value: {{ $values.storage.pathRoots | toJson | quote }}}
- {name: PENSTOCK_URL, value: {{ $own | quote }}}
- {name: PENSTOCK_AUTHORITY_FILE, value: /identity/authority.crt}
{{- else if eq $service "state_syncer" }}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_STATE_SYNCER_TOKEN" "name" $values.secrets.tokens.name "key" $values.secrets.tokens.stateSyncerKey "optional" true) }}
{{- else if eq $service "auto_scaler" }}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_SCALER_TOKEN" "name" $values.secrets.tokens.name "key" $values.secrets.tokens.scalerKey "optional" true) }}
{{- else if eq $service "console" }}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_CONSOLE_KEY" "name" $values.secrets.console.name "key" $values.secrets.console.key "optional" (eq (int .process.replicas) 1)) }}
{{- end }}
{{- include "penstock.furtherEnv" (index $values.services $service "env") }}
{{- end }}

{{- /* How a secured Kafka is reached. Its files are at /kafka. */ -}}
{{- define "penstock.kafkaEnvironment" -}}
{{- if ne .securityProtocol "PLAINTEXT" }}
- {name: PENSTOCK_KAFKA_SECURITY_PROTOCOL, value: {{ .securityProtocol }}}
{{- end }}
{{- with .saslMechanism }}
- {name: PENSTOCK_KAFKA_SASL_MECHANISM, value: {{ . }}}
{{- end }}
{{- with .saslUsername }}
- {name: PENSTOCK_KAFKA_SASL_USERNAME, value: {{ . | quote }}}
{{- end }}
{{- with .oauthTokenUrl }}
- {name: PENSTOCK_KAFKA_OAUTH_TOKEN_URL, value: {{ . | quote }}}
{{- end }}
{{- with .oauthScope }}
- {name: PENSTOCK_KAFKA_OAUTH_SCOPE, value: {{ . | quote }}}
{{- end }}
{{- $files := dict "password" "SASL_PASSWORD_FILE" "ca.crt" "SSL_CA" "tls.crt" "SSL_CERTIFICATE" "tls.key" "SSL_KEY" }}
{{- range .secretKeys }}
- {name: PENSTOCK_KAFKA_{{ get $files . }}, value: /kafka/{{ . }}}
{{- end }}
{{- end }}

{{- /* The schema registry. The file of its password is at /registry. */ -}}
{{- define "penstock.registryEnvironment" -}}
{{- if .url }}
- {name: PENSTOCK_SCHEMA_REGISTRY_URL, value: {{ .url | quote }}}
{{- end }}
{{- if .secret }}
- {name: PENSTOCK_SCHEMA_REGISTRY_USERNAME, value: {{ .username | quote }}}
- {name: PENSTOCK_SCHEMA_REGISTRY_PASSWORD_FILE, value: /registry/password}
{{- end }}
{{- end }}

{{- /* The login of S3, with its names for hosts, which get no other variables. */ -}}
{{- define "penstock.s3Environment" -}}
{{- $names := list -}}
{{- if .secret }}
{{- $names = list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
- {{ include "penstock.fromSecret" (dict "variable" "AWS_ACCESS_KEY_ID" "name" .secret "key" "access_key_id") }}
- {{ include "penstock.fromSecret" (dict "variable" "AWS_SECRET_ACCESS_KEY" "name" .secret "key" "secret_access_key") }}
{{- end }}
{{- with .region }}
{{- $names = append $names "AWS_REGION" }}
- {name: AWS_REGION, value: {{ . | quote }}}
{{- end }}
{{- with $names }}
- {name: PENSTOCK_HOST_ENVIRONMENT, value: {{ . | toJson | quote }}}
{{- end }}
{{- with .endpoint }}
- {name: PENSTOCK_SPARK_CONF, value: {{ dict "spark.hadoop.fs.s3a.endpoint" . "spark.hadoop.fs.s3a.path.style.access" "true" | toJson | quote }}}
{{- end }}
{{- end }}

{{- define "penstock.taskManagerEnvironment" -}}
{{- $values := .Values -}}
- {name: PENSTOCK_CONTAINER, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: PENSTOCK_PUBLIC_URL, value: "https://$(PENSTOCK_CONTAINER).{{ .Release.Name }}-task-manager:7100"}
- {name: PENSTOCK_IDENTITY_DIR, value: /identity}
- {name: PENSTOCK_DATA_DIR, value: /cache}
- {name: PENSTOCK_SPARK_LOCAL_DIR, value: /cache/spark}
- {name: PENSTOCK_CPU_CORES, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "1"}}}
- {name: PENSTOCK_MEMORY_BYTES, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: "1"}}}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_DATABASE_URL" "name" $values.secrets.database.name "key" $values.secrets.database.taskManagerKey) }}
- {name: PENSTOCK_TASK_SERVICE_URL, value: {{ include "penstock.urls" (dict "root" . "service" "task_service") | quote }}}
- {name: PENSTOCK_SHARD_MANAGER_URL, value: {{ include "penstock.urls" (dict "root" . "service" "shard_manager") | quote }}}
- {name: PENSTOCK_KAFKA_BOOTSTRAP, value: {{ $values.kafka.bootstrap | quote }}}
{{- include "penstock.kafkaEnvironment" $values.kafka }}
{{- include "penstock.registryEnvironment" $values.schemaRegistry }}
- {name: PENSTOCK_CHECKPOINT_ROOT, value: {{ $values.storage.checkpointRoot | quote }}}
- {name: PENSTOCK_PACKAGES_ROOT, value: {{ $values.storage.packagesRoot | quote }}}
- {name: PENSTOCK_PATH_ROOTS, value: {{ $values.storage.pathRoots | toJson | quote }}}
{{- if $values.secrets.ofJobs }}
- {name: PENSTOCK_SECRETS_ROOT, value: /secrets}
{{- end }}
{{- if $values.secrets.connections }}
- {{ include "penstock.fromSecret" (dict "variable" "PENSTOCK_CONNECTIONS" "name" $values.secrets.connections "key" "connections") }}
{{- end }}
{{- include "penstock.s3Environment" $values.storage.s3 }}
{{- include "penstock.furtherEnv" $values.taskManagers.env }}
{{- end }}

{{- /* Refuses a variable that the chart sets and `env` sets once more. Usage: (dict "env" ... "s3" ...) */ -}}
{{- define "penstock.checkEnv" -}}
{{- if and (hasKey .env "PENSTOCK_HOST_ENVIRONMENT") (or .s3.secret .s3.region) }}
{{- fail "taskManagers.env.PENSTOCK_HOST_ENVIRONMENT: leave it out, or leave out storage.s3.secret and region, which set it" }}
{{- end }}
{{- if and (hasKey .env "PENSTOCK_SPARK_CONF") .s3.endpoint }}
{{- fail "taskManagers.env.PENSTOCK_SPARK_CONF: leave it out, or leave out storage.s3.endpoint, which sets it" }}
{{- end }}
{{- end }}

{{- /* Refuses paths of the shared claim without a claim. */ -}}
{{- define "penstock.checkStorage" -}}
{{- range concat (list .checkpointRoot .packagesRoot) .pathRoots }}
{{- if and (hasPrefix "/data" .) (not $.claim) }}
{{- fail (printf "storage.claim: %s is below /data, so name the claim that is mounted there" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The ports of the services, and which of them are led by one of their processes. */ -}}
{{- define "penstock.services" -}}
job_service: {port: 7070, led: false}
state_syncer: {port: 7071, led: true}
task_service: {port: 7072, led: false}
shard_manager: {port: 7073, led: true}
auto_scaler: {port: 7074, led: true}
console: {port: 7077, led: false}
{{- end }}

{{- /* One entry for each Deployment: each process of a service that is led has one of its own. */ -}}
{{- define "penstock.processes" -}}
{{- $services := include "penstock.services" . | fromYaml -}}
{{- range $service, $facts := $services }}
{{- $replicas := int (index $.Values.services $service "replicas") }}
{{- $name := $service | replace "_" "-" }}
{{- if $facts.led }}
{{- range $index := until $replicas }}
- {name: {{ $name }}-{{ $index }}, service: {{ $service }}, component: {{ $name }}, port: {{ $facts.port }}, replicas: 1}
{{- end }}
{{- else }}
- {name: {{ $name }}, service: {{ $service }}, component: {{ $name }}, port: {{ $facts.port }}, replicas: {{ $replicas }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* The addresses of a service, comma separated. Usage: (dict "root" $ "service" "shard_manager") */ -}}
{{- define "penstock.urls" -}}
{{- $urls := list -}}
{{- range include "penstock.processes" .root | fromYamlArray }}
{{- if eq .service $.service }}
{{- $urls = append $urls (printf "https://%s-%s:%d" $.root.Release.Name .name (int .port)) }}
{{- end }}
{{- end }}
{{- join "," $urls }}
{{- end }}

{{- define "penstock.labels" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* By what pods are found. Usage: (dict "root" $ "component" "job-service") */ -}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "penstock.image" -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "penstock.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "penstock.container" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Restarted for /healthz alone: a process that is not ready waits, for example for Postgres. */ -}}
{{- define "penstock.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "penstock.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Settings that are the operator's to add. */ -}}
{{- define "penstock.furtherEnv" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{- define "penstock.fromSecret" -}}
{name: {{ .variable }}, valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}, optional: {{ .optional | default false }}}}}
{{- end }}

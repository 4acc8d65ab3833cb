{{- define "ringside.selector" -}}
app.kubernetes.io/name: ringside
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "ringside.labels" -}}
{{ include "ringside.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The Services, and with them the objects of a release, are named after it. */ -}}
{{- define "ringside.name" -}}
{{- if contains "ringside" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-ringside{{ end }}
{{- end }}

{{- define "ringside.settings" -}}
{{- $name := include "ringside.name" . }}
{{- $service := printf "%s.%s" $name .Release.Namespace }}
{{- $hosts := concat (list $name $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service)) .Values.hosts }}
{{- toYaml (merge (dict "allowed-hosts" $hosts) .Values.settings) }}
{{- end }}

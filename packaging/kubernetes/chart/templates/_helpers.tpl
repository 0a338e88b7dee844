{{- define "daytable.selector" -}}
app.kubernetes.io/name: daytable
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "daytable.labels" -}}
{{ include "daytable.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "daytable.name" -}}
{{- if eq .Release.Name "daytable" }}daytable{{ else }}{{ printf "%s-daytable" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "daytable.config" -}}
{{- .Values.config | default (.Files.Get "daytable.toml") }}
{{- end }}

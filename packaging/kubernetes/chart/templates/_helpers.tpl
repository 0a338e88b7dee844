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
{{- .Values.config | default (.Files.Get (eq .Values.kind "DaemonSet" | ternary "daytable.toml" "central.toml")) }}
{{- end }}

{{- define "daytable.scheme" -}}
{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{- /* The chart's own Secret, if a value has the token. */ -}}
{{- define "daytable.tokenOfChart" -}}
{{ if and .Values.token.value (not .Values.token.existingSecret) }}{{ include "daytable.name" . }}-token{{ end }}
{{- end }}

{{- define "daytable.tokenSecret" -}}
{{ .Values.token.existingSecret | default (include "daytable.tokenOfChart" .) }}
{{- end }}

{{- /* Root reads its own files; another user reads those of its group. */ -}}
{{- define "daytable.secretMode" -}}
{{ eq .Values.kind "DaemonSet" | ternary "0400" "0440" }}
{{- end }}

{{- /* The pod of a node, and that of a central daytable. */ -}}
{{- define "daytable.pod" -}}
metadata:
  labels:
    {{- include "daytable.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # A changed configuration restarts the pods.
    checksum/config: {{ include "daytable.config" . | sha256sum }}
    {{- if include "daytable.tokenOfChart" . }}
    checksum/token: {{ .Values.token.value | sha256sum }}
    {{- end }}
    {{- if .Values.metrics.annotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "7878"
    prometheus.io/path: /metrics
    {{- if .Values.tls.existingSecret }}
    prometheus.io/scheme: https
    {{- end }}
    {{- end }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  terminationGracePeriodSeconds: 30
  automountServiceAccountToken: false
  # Variables such as DAYTABLE_PORT, of a Service, are no keys of the configuration.
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: daytable
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["run", "--config", "/etc/daytable/daytable.toml"]
      env:
        - { name: DAYTABLE_DATA, value: /data }
        {{- if include "daytable.tokenSecret" . }}
        - { name: DAYTABLE_HTTP_TOKEN_FILE, value: /run/secrets/daytable/token/token }
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - { name: DAYTABLE_HTTP_TLS_CERT_FILE, value: /run/secrets/daytable/tls/tls.crt }
        - { name: DAYTABLE_HTTP_TLS_KEY_FILE, value: /run/secrets/daytable/tls/tls.key }
        {{- end }}
        {{- if eq .Values.kind "DaemonSet" }}
        {{- if or .Values.nodeField .Values.forward.to }}
        - name: NODE_NAME
          valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
        {{- end }}
        {{- with .Values.nodeField }}
        - name: DAYTABLE_TAIL_0_FIELDS
          value: {{ printf "{ %q = \"$(NODE_NAME)\" }" . | quote }}
        {{- end }}
        {{- if .Values.forward.to }}
        - { name: DAYTABLE_HOST, value: $(NODE_NAME) }
        {{- end }}
        {{- end }}
        {{- if .Values.forward.to }}
        - { name: DAYTABLE_FORWARD_TO, value: {{ .Values.forward.to | quote }} }
        # Beside the records, because it is of this data folder.
        - { name: DAYTABLE_FORWARD_CREDENTIAL_FILE, value: /data/forward }
        {{- if .Values.forward.existingSecret }}
        - { name: DAYTABLE_FORWARD_CODE_FILE, value: /run/secrets/daytable/forward/code }
        {{- end }}
        {{- if .Values.forward.ca.existingSecret }}
        - { name: DAYTABLE_FORWARD_CA_FILE, value: /run/secrets/daytable/forward-ca/ca.crt }
        {{- end }}
        {{- if .Values.forward.allowPlain }}
        - { name: DAYTABLE_FORWARD_ALLOW_PLAIN, value: "true" }
        {{- end }}
        {{- end }}
        {{- range $name, $value := .Values.env }}
        - { name: {{ $name }}, value: {{ $value | quote }} }
        {{- end }}
      ports:
        - { name: metrics, containerPort: 7878 }
      startupProbe:
        httpGet: { path: /readyz, port: metrics, scheme: {{ include "daytable.scheme" . }} }
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        httpGet: { path: /readyz, port: metrics, scheme: {{ include "daytable.scheme" . }} }
      livenessProbe:
        httpGet: { path: /healthz, port: metrics, scheme: {{ include "daytable.scheme" . }} }
        periodSeconds: 20
        failureThreshold: 3
      resources: {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        {{- if eq .Values.kind "DaemonSet" }}
        # The kubelet's folder is root's. One capability reads, none writes.
        runAsUser: 0
        {{- else }}
        runAsUser: 65532
        runAsNonRoot: true
        {{- end }}
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        {{- if eq .Values.kind "DaemonSet" }}
        capabilities: { drop: ["ALL"], add: ["DAC_READ_SEARCH"] }
        {{- else }}
        capabilities: { drop: ["ALL"] }
        {{- end }}
        seccompProfile: { type: RuntimeDefault }
      volumeMounts:
        - { name: data, mountPath: /data }
        - { name: config, mountPath: /etc/daytable, readOnly: true }
        {{- if eq .Values.kind "DaemonSet" }}
        - { name: pods, mountPath: /var/log/pods, readOnly: true }
        {{- end }}
        {{- if include "daytable.tokenSecret" . }}
        - { name: token, mountPath: /run/secrets/daytable/token, readOnly: true }
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - { name: tls, mountPath: /run/secrets/daytable/tls, readOnly: true }
        {{- end }}
        {{- if and .Values.forward.to .Values.forward.existingSecret }}
        - { name: forward, mountPath: /run/secrets/daytable/forward, readOnly: true }
        {{- end }}
        {{- if and .Values.forward.to .Values.forward.ca.existingSecret }}
        - { name: forward-ca, mountPath: /run/secrets/daytable/forward-ca, readOnly: true }
        {{- end }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
  {{- if ne .Values.kind "DaemonSet" }}
  # The volume and the Secrets are the group's.
  securityContext: { fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch }
  {{- end }}
  volumes:
    - name: config
      configMap: { name: {{ include "daytable.name" . }} }
    {{- if eq .Values.kind "DaemonSet" }}
    - name: pods
      hostPath: { path: {{ .Values.podLogsPath }} }
    - name: data
      hostPath: { path: {{ .Values.dataPath }}, type: DirectoryOrCreate }
    {{- end }}
    {{- with include "daytable.tokenSecret" . }}
    - name: token
      secret: { secretName: {{ . }}, defaultMode: {{ include "daytable.secretMode" $ }}, items: [{ key: {{ $.Values.token.key }}, path: token }] }
    {{- end }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret: { secretName: {{ . }}, defaultMode: {{ include "daytable.secretMode" $ }} }
    {{- end }}
    {{- if .Values.forward.to }}
    {{- with .Values.forward.existingSecret }}
    - name: forward
      secret: { secretName: {{ . }}, defaultMode: {{ include "daytable.secretMode" $ }}, items: [{ key: {{ $.Values.forward.key }}, path: code }] }
    {{- end }}
    {{- with .Values.forward.ca.existingSecret }}
    - name: forward-ca
      secret: { secretName: {{ . }}, defaultMode: {{ include "daytable.secretMode" $ }}, items: [{ key: {{ $.Values.forward.ca.key }}, path: ca.crt }] }
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{- define "flopsmith.name" -}}
{{- default (printf "%s-flopsmith" .Release.Name) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels of all objects; takes the root and a component. */}}
{{- define "flopsmith.labels" -}}
{{ include "flopsmith.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "flopsmith.selector" -}}
app.kubernetes.io/name: flopsmith
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "flopsmith.image" -}}
{{- $image := index .root.Values.images .image -}}
{{ $image.repository }}:{{ default .root.Chart.AppVersion $image.tag }}
{{- end -}}

{{/* The broker's address without credentials. */}}
{{- define "flopsmith.nats" -}}
{{- if .Values.nats.internal.enabled -}}
{{ if .Values.nats.tls.existingSecret }}tls{{ else }}nats{{ end }}://{{ include "flopsmith.name" . }}-nats:4222
{{- else -}}
{{ .Values.nats.external.url }}
{{- end -}}
{{- end -}}

{{- define "flopsmith.monitoring" -}}
{{- if .Values.nats.internal.enabled -}}
{{ include "flopsmith.name" . }}-nats-peers.{{ .Release.Namespace }}.svc:8222
{{- else -}}
{{ .Values.nats.external.monitoring }}
{{- end -}}
{{- end -}}

{{- define "flopsmith.copies" -}}
{{- if .Values.nats.internal.enabled -}}{{ .Values.nats.internal.replicas }}{{- else -}}{{ .Values.nats.external.copies }}{{- end -}}
{{- end -}}

{{/* A profile; only a profile of type Localhost has a path on the node. */}}
{{- define "flopsmith.profile" -}}
type: {{ .type }}
{{- if eq .type "Localhost" }}
localhostProfile: {{ .localhostProfile }}
{{- end }}
{{- end -}}

{{/* Refuses contradictory values, each with a message. */}}
{{- define "flopsmith.check" -}}
{{- $nats := .Values.nats -}}
{{- if and $nats.internal.enabled $nats.external.url -}}
{{- fail "nats: the values ask for the chart's own server (internal.enabled) and for an existing one (external.url); choose one" -}}
{{- end -}}
{{- if and (not $nats.internal.enabled) (not $nats.external.url) -}}
{{- fail "nats: internal.enabled is false, so external.url has to name the server" -}}
{{- end -}}
{{- if contains "@" $nats.external.url -}}
{{- fail "nats.external.url holds credentials; they belong in the secret that nats.auth.existingSecret names" -}}
{{- end -}}
{{- $keys := $nats.auth.keys -}}
{{- if $keys.enabled -}}
{{- if and $nats.internal.enabled (not $keys.users) -}}
{{- fail "nats.auth.keys.users has to name the secret with users.conf: without it the chart's own server has no users" -}}
{{- end -}}
{{- if not $keys.init -}}
{{- fail "nats.auth.keys.init has to name the secret with an admin's key, which sets the broker up" -}}
{{- end -}}
{{- range $part, $values := dict "archive" .Values.archive "trainer" .Values.trainer "generator" .Values.generator -}}
{{- if and $values.enabled (not (index $keys $part)) -}}
{{- fail (printf "nats.auth.keys.%s has to name the secret with its key" $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := dict -}}
{{- range $pool := .Values.pools -}}
{{- if hasKey $names $pool.name -}}
{{- fail (printf "pools: two pools have the name %s" $pool.name) -}}
{{- end -}}
{{- $_ := set $names $pool.name true -}}
{{- if and $keys.enabled (not $pool.key) -}}
{{- fail (printf "pool %s: key has to name the secret with its key, since nats.auth.keys.enabled is true" $pool.name) -}}
{{- end -}}
{{- if and $pool.key (not $keys.enabled) -}}
{{- fail (printf "pool %s has a key, but nats.auth.keys.enabled is false" $pool.name) -}}
{{- end -}}
{{- $scaling := default dict $pool.autoscaling -}}
{{- if $scaling.enabled -}}
{{- if gt (int $scaling.min) (int $scaling.max) -}}
{{- fail (printf "pool %s: autoscaling.min is above autoscaling.max" $pool.name) -}}
{{- end -}}
{{- if not (include "flopsmith.monitoring" $) -}}
{{- fail (printf "pool %s: autoscaling needs the length of its queue, so nats.external.monitoring has to name the server's monitoring address" $pool.name) -}}
{{- end -}}
{{- end -}}
{{- if and (has "timer" $pool.roles) (lt (int $pool.cores) 2) -}}
{{- fail (printf "pool %s times programs: it needs two cores, one for the program and one for the clock" $pool.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The environment of every node. */}}
{{- define "flopsmith.env" -}}
{{- if .root.Values.nats.auth.keys.enabled -}}
- name: FLOPSMITH_NATS_NKEY
  value: /etc/flopsmith/key/nkey
- name: FLOPSMITH_NATS
  value: {{ include "flopsmith.nats" .root | quote }}
{{- else -}}
- name: FLOPSMITH_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.nats.auth.existingSecret }}
      key: {{ .root.Values.nats.auth.tokenKey }}
- name: FLOPSMITH_NATS
  value: {{ include "flopsmith.nats" .root | replace "://" "://$(FLOPSMITH_TOKEN)@" | quote }}
{{- end }}
{{- if .root.Values.nats.tls.existingSecret }}
- name: FLOPSMITH_NATS_CA
  value: /etc/flopsmith/ca/ca.crt
{{- end }}
- name: FLOPSMITH_STORE
  value: {{ .root.Values.store.url | quote }}
- name: FLOPSMITH_LISTEN
  value: 0.0.0.0:9100
- name: FLOPSMITH_GRACE
  value: {{ printf "%ds" (int .root.Values.graceSeconds) }}
- name: FLOPSMITH_LOG
  value: {{ .root.Values.telemetry.log | quote }}
- name: FLOPSMITH_NODE
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with .root.Values.telemetry.otlpEndpoint }}
- name: FLOPSMITH_OTLP_ENDPOINT
  value: {{ . | quote }}
{{- end }}
{{- range $name, $value := .root.Values.store.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* The key of a node and the certificate by which it trusts the broker; takes root and key, the secret with its key. Of the broker's secret a node
gets only the certificate of the authority. */}}
{{- define "flopsmith.trustMounts" -}}
{{- if .root.Values.nats.auth.keys.enabled -}}
- name: key
  mountPath: /etc/flopsmith/key
  readOnly: true
{{- end }}
{{- if .root.Values.nats.tls.existingSecret }}
- name: ca
  mountPath: /etc/flopsmith/ca
  readOnly: true
{{- end }}
{{- end -}}

{{- define "flopsmith.trustVolumes" -}}
{{- if .root.Values.nats.auth.keys.enabled -}}
- name: key
  secret:
    secretName: {{ .key }}
    defaultMode: 0440
    items:
      - {key: nkey, path: nkey}
{{- end }}
{{- with .root.Values.nats.tls.existingSecret }}
- name: ca
  secret:
    secretName: {{ . }}
    defaultMode: 0440
    items:
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end -}}

{{/* The pod of a node; takes root, component, image, roles, the secret with its key, and the node's own values. */}}
{{- define "flopsmith.pod" -}}
metadata:
  labels:
    {{- include "flopsmith.labels" . | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "flopsmith.name" .root }}{{ if .jailed }}-pool{{ end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Longer than a node needs to finish its current work.
  terminationGracePeriodSeconds: {{ add .root.Values.graceSeconds 15 }}
  {{- with .root.Values.images.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile:
      type: RuntimeDefault
  {{- with .nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "flopsmith.selector" . | nindent 10 }}
  containers:
    - name: node
      image: {{ include "flopsmith.image" . | quote }}
      imagePullPolicy: {{ .root.Values.images.pullPolicy }}
      args: [worker]
      env:
        {{- include "flopsmith.env" . | nindent 8 }}
        - name: FLOPSMITH_ROLES
          value: {{ join "," .roles | quote }}
        {{- with .class }}
        - name: FLOPSMITH_MACHINE_CLASS
          value: {{ . | quote }}
        {{- end }}
      {{- with default .root.Values.store.existingSecret .storeSecret }}
      envFrom:
        - secretRef:
            name: {{ . }}
      {{- end }}
      ports:
        - name: metrics
          containerPort: 9100
      livenessProbe:
        httpGet: {path: /live, port: metrics}
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /ready, port: metrics}
        periodSeconds: 5
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
        {{- if .jailed }}
        # Only pods that run programs get the jail's exceptions.
        seccompProfile:
          {{- include "flopsmith.profile" .root.Values.jail.seccompProfile | nindent 10 }}
        {{- with .root.Values.jail.appArmorProfile }}
        appArmorProfile:
          {{- include "flopsmith.profile" . | nindent 10 }}
        {{- end }}
        {{- end }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if .jailed }}
        - name: shm
          mountPath: /dev/shm
        {{- end }}
        {{- with include "flopsmith.trustMounts" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        {{- /* A node of a run fetches the run's model, and a GPU is for models of billions of weights. */}}
        sizeLimit: {{ if .jailed }}4Gi{{ else if .temporarySpace }}{{ .temporarySpace }}{{ else if index (default dict .resources.limits) "nvidia.com/gpu" }}80Gi{{ else }}16Gi{{ end }}
    {{- if .jailed }}
    # Holds the arrays of timed programs.
    - name: shm
      emptyDir:
        medium: Memory
    {{- end }}
    {{- with include "flopsmith.trustVolumes" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "flopsmith.name" -}}
{{- default (printf "%s-flopsmith" .Release.Name) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of everything; takes the root and a component. */}}
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

{{/* The broker without credentials. */}}
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

{{/* A profile; where it lies is said of one that lies on the node only. */}}
{{- define "flopsmith.profile" -}}
type: {{ .type }}
{{- if eq .type "Localhost" }}
localhostProfile: {{ .localhostProfile }}
{{- end }}
{{- end -}}

{{/* Values that contradict each other, each with a sentence. */}}
{{- define "flopsmith.check" -}}
{{- $nats := .Values.nats -}}
{{- if and $nats.internal.enabled $nats.external.url -}}
{{- fail "nats: there is a server of the chart's own (internal.enabled) and one elsewhere (external.url); choose one" -}}
{{- end -}}
{{- if and (not $nats.internal.enabled) (not $nats.external.url) -}}
{{- fail "nats: internal.enabled is false, so external.url has to say where the server is" -}}
{{- end -}}
{{- if contains "@" $nats.external.url -}}
{{- fail "nats.external.url holds credentials; they belong in the secret that nats.auth.existingSecret names" -}}
{{- end -}}
{{- $keys := $nats.auth.keys -}}
{{- if $keys.enabled -}}
{{- if and $nats.internal.enabled (not $keys.users) -}}
{{- fail "nats.auth.keys.users has to name the secret with users.conf, or the chart's own server knows nobody" -}}
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
{{- fail (printf "pools: there are two called %s" $pool.name) -}}
{{- end -}}
{{- $_ := set $names $pool.name true -}}
{{- if and $keys.enabled (not $pool.key) -}}
{{- fail (printf "pool %s: key has to name the secret with its key, as nats.auth.keys are in use" $pool.name) -}}
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
{{- fail (printf "pool %s is to scale by its queue: nats.external.monitoring has to say where the server tells how long that is" $pool.name) -}}
{{- end -}}
{{- end -}}
{{- if and (has "timer" $pool.roles) (lt (int $pool.cores) 2) -}}
{{- fail (printf "pool %s times programs: it needs two cores, one for the program and one for the stopwatch" $pool.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What every node is told. */}}
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

{{/* What a node proves itself and trusts the broker by; takes root and key, the secret with its key. Of the broker's secret it gets the certificate of
who vouches for it alone. */}}
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

{{/* A pod that is a node; takes root, component, image, roles, the secret with its key, and what is special about it. */}}
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
  # Longer than a node takes to finish what it has in hand.
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
        # The jail's exceptions, for pods that run programs only.
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
        sizeLimit: {{ if .jailed }}4Gi{{ else }}16Gi{{ end }}
    {{- if .jailed }}
    # Arrays of programs that are timed.
    - name: shm
      emptyDir:
        medium: Memory
    {{- end }}
    {{- with include "flopsmith.trustVolumes" . | trim }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* Kedge keeps its own objects in one namespace, and its programs know its name. */}}
{{- define "kedge.namespace" -}}
{{- if ne .Release.Namespace "kedge-system" -}}
{{- fail "Kedge lives in the namespace kedge-system: install it with --namespace kedge-system --create-namespace" -}}
{{- end -}}
kedge-system
{{- end -}}

{{- define "kedge.selector" -}}
app.kubernetes.io/name: kedge
app.kubernetes.io/component: manager
{{- end -}}

{{- define "kedge.gatewaySelector" -}}
app.kubernetes.io/name: kedge
app.kubernetes.io/component: gateway
{{- end -}}

{{/* Of a gateway in a Pod; the manager is this one's unless another one is named. */}}
{{- define "kedge.gatewayConfig" -}}
{{- $manager := dict "url" (printf "https://kedge-manager.%s.svc:%d" (include "kedge.namespace" .) (int .Values.service.port)) }}
{{- if .Values.gateway.tokenSecret }}
{{- $_ := set $manager "token_file" "/run/secrets/kedge/token" }}
{{- end }}
{{- $config := deepCopy .Values.gateway.config }}
{{- $_ := set $config "version" 1 }}
{{- $_ := set $config "manager" (mergeOverwrite $manager (get $config "manager" | default dict)) }}
{{- if .Values.gateway.envoy.enabled }}
{{- $_ := set $config "proxy" (mergeOverwrite (get $config "proxy" | default dict) (dict "engine" "envoy")) }}
{{- end }}
{{- with .Values.gateway.metrics }}
{{- $_ := set $config "metrics" (dict "listen" (printf "%s:%d" .listenAddress (int .port))) }}
{{- end }}
{{- toYaml $config }}
{{- end -}}

{{- define "kedge.gatewayImage" -}}
{{- printf "%s:%s" .Values.gateway.image.repository (.Values.gateway.image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}

{{- define "kedge.labels" -}}
app.kubernetes.io/name: kedge
{{- if .Values.clusterctl }}
cluster.x-k8s.io/provider: addon-kedge
{{- else }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- end -}}

{{- define "kedge.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What is asked of every container of ours. */}}
{{- define "kedge.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "kedge.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

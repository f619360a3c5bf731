{{- define "config-op.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "config-op.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "config-op.labels" -}}
{{ include "config-op.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: tungsten-fabric
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "config-op.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "config-op.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "config-op.image" -}}
{{- $image := .Values.image -}}
{{- $name := $image.repository -}}
{{- with default .Values.registry $image.registry -}}{{- $name = printf "%s/%s" . $image.repository -}}{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The watched namespaces as a comma-separated list; empty for all. */}}
{{- define "config-op.namespaces" -}}
{{- if eq .Values.watch.scope "namespace" -}}
{{- .Release.Namespace -}}
{{- else if eq .Values.watch.scope "namespaces" -}}
{{- if not .Values.watch.namespaces -}}{{- fail "watch.namespaces is empty; list namespaces or use another watch.scope" -}}{{- end -}}
{{- join "," .Values.watch.namespaces -}}
{{- end -}}
{{- end -}}

{{/* The port of health and metrics. */}}
{{- define "config-op.port" -}}
{{- ternary .Values.bootstrapPort .Values.port .Values.bootstrap -}}
{{- end -}}

{{/* URL of the API server for an operator in the node's network; empty for the Service. */}}
{{- define "config-op.apiServer" -}}
{{- if .Values.apiServer.host -}}
{{- $host := .Values.apiServer.host -}}
{{- if contains ":" $host -}}{{- $host = printf "[%s]" (trimAll "[]" $host) -}}{{- end -}}
{{- printf "https://%s:%v" $host .Values.apiServer.port -}}
{{- else -}}
{{- $info := lookup "v1" "ConfigMap" "kube-public" "cluster-info" | default dict -}}
{{- $config := dig "data" "kubeconfig" "" $info | fromYaml -}}
{{- with $config.clusters -}}{{- (index . 0).cluster.server -}}{{- end -}}
{{- end -}}
{{- end -}}

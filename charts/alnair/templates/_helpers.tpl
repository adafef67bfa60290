{{/* The name of everything namespaced: the release's name, and the chart's where that does not say it already. */}}
{{- define "alnair.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The name of what is cluster-scoped. The colons cannot stand in a namespace or a release, so that no two releases
of two namespaces can ever make the same name ("a-b" in "c", "a" in "b-c").
*/}}
{{- define "alnair.clusterName" -}}
{{- printf "alnair:%s:%s:%s" .Release.Namespace .Release.Name (include "alnair.fullname" .) -}}
{{- end -}}

{{/* The ClusterRole of those who may read the metrics. */}}
{{- define "alnair.metricsReader" -}}
{{- printf "%s:metrics-reader" (include "alnair.clusterName" .) -}}
{{- end -}}

{{- define "alnair.serviceAccount" -}}
{{- default (include "alnair.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "alnair.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "alnair.labels" -}}
{{ include "alnair.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The schedulerNames that this release answers to, as JSON. */}}
{{- define "alnair.schedulers" -}}
{{- $names := list }}
{{- range .Values.profiles }}
{{- $names = append $names .schedulerName }}
{{- end }}
{{- if .Values.baselines }}
{{- $names = concat $names (list "alnair-fgd" "alnair-packing" "alnair-clustering" "alnair-dot-product" "alnair-random") | uniq }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Not empty: some profile asks what pods used before. A scorer is an object, or a name alone. */}}
{{- define "alnair.measures" -}}
{{- range .Values.profiles }}
{{- range .scorers }}
{{- $name := . }}
{{- if kindIs "map" . }}
{{- $name = .name }}
{{- end }}
{{- if eq $name "Allocated" }}yes{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
What the admission policies share. In CEL: pods and records of this release, keys that only a Binding of Alnair fills, and
variables that only Alnair sets. The names are those of operator/alnair/api/names.py; a test compares them.
*/}}

{{- define "alnair.policyName" -}}
{{- /* A namespace has no dot, so no two releases of two namespaces make one name. */ -}}
{{- printf "%s.%s" .Release.Namespace .Release.Name -}}
{{- end -}}

{{- define "alnair.policyApi" -}}
{{- if not (semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "delivery.enabled: needs MutatingAdmissionPolicies, which Kubernetes has from 1.36 on, and this is %s; set it to false to place pods whose cards something else hands out" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
admissionregistration.k8s.io/v1
{{- end -}}

{{- define "alnair.cel.schedulers" -}}
[{{- range $index, $name := include "alnair.schedulers" . | fromJsonArray }}{{ if $index }}, {{ end }}'{{ $name }}'{{ end -}}]
{{- end -}}

{{- /* A pod that gets its cards from this release: (list $ "object"), or "oldObject". Of kube-scheduler's pods only those
that ask for what it sends to the extender; the others are left alone. */ -}}
{{- define "alnair.cel.ours" -}}
{{- $root := index . 0 }}{{ $pod := index . 1 }}
{{- if $root.Values.extender.enabled -}}
({{ $pod }}.spec.schedulerName in {{ include "alnair.cel.schedulers" $root }}
{{- ` || ` -}}
({{ $pod }}.spec.schedulerName in {{ include "alnair.cel.guests" $root }}
{{- ` && ` -}}
({{ $pod }}.spec.containers + {{ $pod }}.spec.?initContainers.orValue([])).exists(c, {{ include "alnair.cel.managed" $root }}.exists(r, r in c.?resources.?limits.orValue({})))))
{{- else -}}
{{ $pod }}.spec.schedulerName in {{ include "alnair.cel.schedulers" $root }}
{{- end -}}
{{- end -}}

{{- /* kube-scheduler's schedulerNames whose pods the extender serves. */ -}}
{{- define "alnair.cel.guests" -}}
[{{- range $index, $name := .Values.extender.schedulerNames }}{{ if $index }}, {{ end }}'{{ $name }}'{{ end -}}]
{{- end -}}

{{- /* What kube-scheduler sends a pod to the extender for. */ -}}
{{- define "alnair.cel.managed" -}}
['alnair/vgpu-memory', 'alnair/vgpu-compute', 'nvidia.com/gpumem', 'nvidia.com/gpumem-percentage', 'nvidia.com/gpucores'
{{- if .Values.extender.wholeCards }}, 'nvidia.com/gpu'{{ end }}]
{{- end -}}

{{- /* It asks for cards in a way that kube-scheduler does not see. */ -}}
{{- define "alnair.cel.unseen" -}}
(object.spec.schedulerName in {{ include "alnair.cel.guests" . }} && ['ai.centaurus.io/gpu-memory', 'ai.centaurus.io/gpu-count'].exists(key, key in object.metadata.?annotations.orValue({})))
{{- end -}}

{{- /* Each annotation is looked at whenever the pod is written. With tens of thousands of them that would be more than the
apiserver lets a policy cost, and nobody, kubelets too, could write the pod's status any more. */ -}}
{{- define "alnair.cel.crowded" -}}
size(object.metadata.?annotations.orValue({})) > {{ include "alnair.mostAnnotations" . }}
{{- end -}}

{{- define "alnair.mostAnnotations" -}}
1024
{{- end -}}

{{- define "alnair.cel.growsCrowded" -}}
({{ include "alnair.cel.crowded" . }} && size(object.metadata.?annotations.orValue({})) > size(oldObject.metadata.?annotations.orValue({})))
{{- end -}}

{{- define "alnair.cel.ourKey" -}}
(key.contains('.env.ai.centaurus.io/') || key in ['ai.centaurus.io/node', 'ai.centaurus.io/alnair-gpu-id', 'ai.centaurus.io/gpu-slices'])
{{- end -}}

{{- define "alnair.cel.ourVariable" -}}
(e.name == 'NVIDIA_VISIBLE_DEVICES' || e.name.startsWith('CUDA_DEVICE_MEMORY_LIMIT') || e.name.startsWith('CUDA_DEVICE_SM_LIMIT') || e.name.startsWith('ALNAIR_GPU_'))
{{- end -}}

{{- define "alnair.cel.reads" -}}
e.?valueFrom.?fieldRef.?fieldPath.orValue('')
{{- end -}}

{{- /* Read from its own container's annotation, whichever of them; that it is the right one is the operator's to see. */ -}}
{{- define "alnair.cel.told" -}}
{{ include "alnair.cel.reads" . }}.startsWith("metadata.annotations['" + c.name + '.env.ai.centaurus.io/')
{{- end -}}

{{- /* Nothing is shown to a container that says so itself, unless it is told cards, too. */ -}}
{{- define "alnair.cel.hidden" -}}
(e.name == 'NVIDIA_VISIBLE_DEVICES' && e.?value.orValue('') in ['none', 'void']
{{- ` && ` -}}
!c.?env.orValue([]).exists(e, e.name == 'NVIDIA_VISIBLE_DEVICES' && {{ include "alnair.cel.told" . }}))
{{- end -}}

{{- /* A pod brings a value of its own: in a variable, in an annotation. */ -}}
{{- define "alnair.cel.bringsVariables" -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, c.?env.orValue([]).exists(e, {{ include "alnair.cel.foreign" . }}))
{{- end -}}

{{- define "alnair.cel.bringsAnnotations" -}}
object.metadata.?annotations.orValue({}).exists(key, {{ include "alnair.cel.ourKey" . }})
{{- end -}}

{{- /* It asks Alnair for cards and has chosen its node already, where nobody has counted them. */ -}}
{{- define "alnair.cel.presetsNode" -}}
(object.spec.?nodeName.orValue('') != '' && (['ai.centaurus.io/gpu-memory', 'ai.centaurus.io/gpu-count'].exists(key, key in object.metadata.?annotations.orValue({}))
{{- ` || ` -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, ['alnair/vgpu-memory', 'alnair/vgpu-compute', 'nvidia.com/gpumem', 'nvidia.com/gpumem-percentage', 'nvidia.com/gpucores', 'nvidia.com/gpu'].exists(r, r in c.?resources.?limits.orValue({})))))
{{- end -}}

{{- /* The same of another scheduler's pod: a slice is Alnair's to give, whoever asks. */ -}}
{{- define "alnair.cel.presetsNodeOfSlice" -}}
(object.spec.?nodeName.orValue('') != '' && (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, ['alnair/vgpu-memory', 'alnair/vgpu-compute'].exists(r, r in c.?resources.?limits.orValue({}))))
{{- end -}}

{{- /* Two pods, before and after, are members of two groups; or of one and of none. */ -}}
{{- define "alnair.cel.changesGroup" -}}
object.metadata.?labels[?'scheduling.x-k8s.io/pod-group'] != oldObject.metadata.?labels[?'scheduling.x-k8s.io/pod-group']
{{- end -}}

{{- define "alnair.cel.bringsGroup" -}}
'scheduling.x-k8s.io/pod-group' in object.metadata.?labels.orValue({})
{{- end -}}

{{- /* The user that this release's operator is. */ -}}
{{- define "alnair.cel.operator" -}}
'system:serviceaccount:{{ .Release.Namespace }}:{{ include "alnair.serviceAccount" . }}'
{{- end -}}

{{- /* What the operator labels its records with: label_value() of names.py, of its Lease. */ -}}
{{- define "alnair.instance" -}}
{{- $lease := printf "%s.%s" .Release.Namespace (include "alnair.fullname" .) -}}
{{- if le (len $lease) 63 -}}
{{- $lease -}}
{{- else -}}
{{- printf "%s-%s" ($lease | trunc 54 | trimAll "._-") ($lease | sha256sum | trunc 8) -}}
{{- end -}}
{{- end -}}

{{- /* A record of this release: by its label, or by its scheduler name, which alone a forgery needs to be taken for ours. */ -}}
{{- define "alnair.cel.ourRecord" -}}
{{- $root := index . 0 }}{{ $record := index . 1 }}
{{- $record }}.?metadata.?labels[?'ai.centaurus.io/instance'].orValue('') == '{{ include "alnair.instance" $root }}'
{{- ` || ` -}}
{{ $record }}.?spec.?schedulerName.orValue('') in {{ include "alnair.cel.schedulers" $root }}
{{- end -}}

{{- define "alnair.cel.foreign" -}}
({{ include "alnair.cel.ourVariable" . }} && !({{ include "alnair.cel.told" . }}) && !{{ include "alnair.cel.hidden" . }})
{{- end -}}

"""Files as people had them, by what they are. Tabs and all."""

from __future__ import annotations

CLASSIC = """{
"kind" : "Policy",
"apiVersion" : "v1",
"predicates" : [
\t{"name" : "PodFitsHostPorts"},
\t{"name" : "PodFitsResources"},
\t{"name" : "NoDiskConflict"},
\t{"name" : "MatchNodeSelector"},
\t{"name" : "HostName"}
\t],
"priorities" : [
\t{"name" : "LeastRequestedPriority", "weight" : 1},
\t{"name" : "BalancedResourceAllocation", "weight" : 1},
\t{"name" : "ServiceSpreadingPriority", "weight" : 1},
\t{"name" : "EqualPriority", "weight" : 1}
\t],
"hardPodAffinitySymmetricWeight" : 10
}
"""

# What kube-scheduler 1.0 could do, arguments and all.
FIRST = """
kind: Policy
apiVersion: v1
predicates:
- name: MatchNodeSelector
- name: PodFitsResources
- name: PodFitsPorts
- name: NoDiskConflict
- name: Region
  argument: {serviceAffinity: {labels: [region]}}
- name: Labelled
  argument: {labelsPresence: {labels: [foo], presence: true}}
- name: NotRetiring
  argument: {labelsPresence: {labels: [retiring, example.com/broken], presence: false}}
priorities:
- {name: LeastRequestedPriority, weight: 1}
- {name: ServiceSpreadingPriority, weight: 2}
- name: Zone
  weight: 3
  argument: {serviceAntiAffinity: {label: zone}}
- name: Rack
  weight: 1
  argument: {serviceAntiAffinity: {label: rack}}
- name: Fast
  weight: 4
  argument: {labelPreference: {label: ssd, presence: true}}
- name: Quiet
  weight: 6
  argument: {labelPreference: {label: busy, presence: false}}
"""

# The names that came until 1.22.
LAST = """
{"kind": "Policy", "apiVersion": "v1",
 "predicates": [
  {"name": "MatchNodeSelector"}, {"name": "PodFitsResources"}, {"name": "PodFitsHostPorts"}, {"name": "HostName"},
  {"name": "NoDiskConflict"}, {"name": "NoVolumeZoneConflict"}, {"name": "PodToleratesNodeTaints"},
  {"name": "CheckNodeMemoryPressure"}, {"name": "CheckNodeDiskPressure"}, {"name": "CheckNodePIDPressure"},
  {"name": "CheckNodeCondition"}, {"name": "CheckNodeUnschedulable"}, {"name": "MaxEBSVolumeCount"},
  {"name": "MaxGCEPDVolumeCount"}, {"name": "MaxAzureDiskVolumeCount"}, {"name": "MaxCinderVolumeCount"},
  {"name": "MaxCSIVolumeCountPred"}, {"name": "MatchInterPodAffinity"}, {"name": "GeneralPredicates"},
  {"name": "CheckVolumeBinding"}, {"name": "NoVolumeNodeConflict"}, {"name": "EvenPodsSpread"},
  {"name": "PodToleratesNodeNoExecuteTaints"}],
 "priorities": [
  {"name": "EqualPriority", "weight": 2}, {"name": "ImageLocalityPriority", "weight": 2},
  {"name": "LeastRequestedPriority", "weight": 2}, {"name": "BalancedResourceAllocation", "weight": 2},
  {"name": "SelectorSpreadPriority", "weight": 2}, {"name": "NodePreferAvoidPodsPriority", "weight": 10000},
  {"name": "NodeAffinityPriority", "weight": 2}, {"name": "TaintTolerationPriority", "weight": 2},
  {"name": "InterPodAffinityPriority", "weight": 2}, {"name": "MostRequestedPriority", "weight": 2},
  {"name": "EvenPodsSpreadPriority", "weight": 4}, {"name": "ResourceLimitsPriority", "weight": 2},
  {"name": "RequestedToCapacityRatioPriority", "weight": 2, "argument": {"requestedToCapacityRatioArguments": {
     "shape": [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 7}],
     "resources": [{"name": "nvidia.com/gpu", "weight": 3}, {"name": "cpu"}]}}}],
 "extenders": [{"urlPrefix": "https://10.0.0.1/prefix", "filterVerb": "filter", "prioritizeVerb": "prioritize",
   "weight": 1, "BindVerb": "bind", "enableHttps": true, "tlsConfig": {"Insecure": true}, "httpTimeout": 1,
   "nodeCacheCapable": true, "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": true}],
   "ignorable": true}],
 "hardPodAffinitySymmetricWeight": 5, "alwaysCheckAllPredicates": true}
"""

GPUSHARE = """{"kind": "Policy", "apiVersion": "v1", "extenders": [
  {"urlPrefix": "http://127.0.0.1:32766/gpushare-scheduler", "filterVerb": "filter", "bindVerb": "bind",
   "enableHttps": false, "nodeCacheCapable": true, "ignorable": false,
   "managedResources": [{"name": "aliyun.com/gpu-mem", "ignoredByScheduler": false}]}]}"""

# Batch clusters that are to be emptied from the end, so that machines can be given back.
PACKING = """{"kind": "Policy", "apiVersion": "v1",
 "predicates": [{"name": "GeneralPredicates"}, {"name": "MatchInterPodAffinity"}, {"name": "NoDiskConflict"},
                {"name": "NoVolumeZoneConflict"}, {"name": "PodToleratesNodeTaints"}],
 "priorities": [{"name": "MostRequestedPriority", "weight": 1}, {"name": "InterPodAffinityPriority", "weight": 2}]}"""

IN_A_CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-policy, namespace: openshift-config}
data:
  README: "see policy.cfg: it is JSON"
  policy.cfg: |
    {"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "GeneralPredicates"}],
     "priorities": [{"name": "LeastRequestedPriority", "weight": 1}]}
"""

# -- KubeSchedulerConfiguration ----------------------------------------------------------------------------------

VGPU_SCHEDULER = """
apiVersion: kubescheduler.config.k8s.io/v1beta2
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}
profiles:
- schedulerName: default-scheduler
  plugins:
    filter: {enabled: [{name: alnaircostsaving}]}
    score: {enabled: [{name: alnaircostsaving}], disabled: [{name: "*"}]}
- schedulerName: alnair-cost-saving
  plugins:
    filter: {enabled: [{name: alnaircostsaving}]}
    score: {enabled: [{name: alnaircostsaving}], disabled: [{name: "*"}]}
- schedulerName: alnair-high-performance
  plugins:
    filter: {enabled: [{name: alnairhighperformance}]}
    score: {enabled: [{name: alnairhighperformance}], disabled: [{name: "*"}]}
"""

UTILSCHED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: scheduler-config, namespace: kube-system}
data:
  scheduler-config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1alpha1
    kind: KubeSchedulerConfiguration
    schedulerName: utilsched
    leaderElection: {leaderElect: true, lockObjectName: utilsched, lockObjectNamespace: kube-system}
    plugins:
      score:
        enabled:
        - {name: utilsched, weight: 300}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: utilsched}
"""

COSCHEDULING = """
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: coscheduling-only
  plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    preFilter: {enabled: [{name: Coscheduling}]}
    permit: {enabled: [{name: Coscheduling}]}
  pluginConfig:
  - name: Coscheduling
    args: {permitWaitingTimeSeconds: 10}
"""

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins:
    multiPoint: {disabled: [{name: InterPodAffinity}], enabled: [{name: ImageLocality, weight: 7}]}
    filter: {disabled: [{name: PodTopologySpread}]}
    score: {disabled: [{name: PodTopologySpread}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/dongle]
      scoringStrategy:
        type: MostAllocated
        resources: [{name: cpu, weight: 1}, {name: nvidia.com/gpu, weight: 5}]
"""

POLICIES = (CLASSIC, FIRST, LAST, GPUSHARE, PACKING, IN_A_CONFIG_MAP)
CONFIGURATIONS = (VGPU_SCHEDULER, UTILSCHED, COSCHEDULING, MOST_ALLOCATED)

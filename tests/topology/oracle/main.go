// The kubelet's word on NUMA alignment: cases as JSON lines in, its verdicts as JSON lines out.
//
// Everything that decides is the kubelet's: the topology manager with its policies and scopes, the static policies of the
// CPU and memory managers, the device manager. This program only builds the machine that a case describes, marks what
// is taken on it, and asks about one pod after the other until one is refused.
//
// It is compiled inside the module of the control plane (see tests/topology/kubelet.py), so that the kubelet asked is of
// the very version that the tests run.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	cputopology "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/utils/cpuset"
)

// The exported constructor would put its socket under /var/lib/kubelet.
//
//go:linkname newDeviceManager k8s.io/kubernetes/pkg/kubelet/cm/devicemanager.newManagerImpl
func newDeviceManager(logger klog.Logger, socket string, topology []cadvisorapi.Node, store topologymanager.Store) (*devicemanager.ManagerImpl, error)

type zone struct {
	ID       int                  `json:"id"`
	CPUs     int                  `json:"cpus"`
	Reserved int                  `json:"reserved"` // CPUs of the system, of which nobody gets any
	Used     int                  `json:"used"`     // CPUs
	Memory   map[string][2]uint64 `json:"memory"`   // allocatable, free
	Group    []int                `json:"group"`    // zones that memory in use here is pinned over
}

type container struct {
	Name     string            `json:"name"`
	Init     bool              `json:"init"`
	Sidecar  bool              `json:"sidecar"`
	Requests map[string]string `json:"requests"`
	Limits   map[string]string `json:"limits"`
}

type question struct {
	Policy        string              `json:"policy"`
	Scope         string              `json:"scope"`
	Zones         []zone              `json:"zones"`
	CPUManager    bool                `json:"cpu_manager"`
	MemoryManager bool                `json:"memory_manager"`
	Devices       map[string][][3]int `json:"devices"` // by zone: all, healthy, used
	Pods          [][]container       `json:"pods"`
}

type verdict struct {
	Admitted bool    `json:"admitted"`
	Reason   string  `json:"reason"`
	Masks    [][]int `json:"masks"` // by container; null = anywhere
}

func main() {
	klog.SetLogger(logr.Discard())
	folder, err := os.MkdirTemp("", "alnair-topology-")
	if err != nil {
		fail(err)
	}
	defer os.RemoveAll(folder)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for number := 0; ; number++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked question
		if err := json.Unmarshal(line, &asked); err != nil {
			fail(err)
		}
		answers, err := answer(asked, filepath.Join(folder, fmt.Sprint(number)))
		if err != nil {
			fail(fmt.Errorf("%s: %w", line, err))
		}
		text, err := json.Marshal(answers)
		if err != nil {
			fail(err)
		}
		fmt.Fprintf(out, "%s\n", text)
		out.Flush()
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func answer(asked question, folder string) ([]verdict, error) {
	defer os.RemoveAll(folder)
	machine := machineOf(asked)
	manager, err := topologymanager.NewManager(machine.Topology, asked.Policy, asked.Scope, nil)
	if err != nil {
		return nil, err
	}
	devices, err := devicesOf(asked, machine, manager, folder)
	if err != nil {
		return nil, err
	}
	defer devices.Stop(klog.Background())
	cpus, err := cpusOf(asked, machine, manager)
	if err != nil {
		return nil, err
	}
	memory, err := memoryOf(asked, machine, manager)
	if err != nil {
		return nil, err
	}
	// The order in which the kubelet asks them.
	manager.AddHintProvider(klog.Background(), devices)
	manager.AddHintProvider(klog.Background(), cpus)
	manager.AddHintProvider(klog.Background(), memory)

	var verdicts []verdict
	for number, containers := range asked.Pods {
		pod := podOf(number, containers)
		devices.pods = append(devices.pods, pod)
		result := manager.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
		said := verdict{Admitted: result.Admit, Reason: result.Reason, Masks: [][]int{}}
		for _, each := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if affinity := manager.GetAffinity(string(pod.UID), each.Name).NUMANodeAffinity; affinity == nil {
				said.Masks = append(said.Masks, nil)
			} else {
				said.Masks = append(said.Masks, affinity.GetBits())
			}
		}
		verdicts = append(verdicts, said)
		if !result.Admit {
			break // what it leaves behind is swept later, at a time that nobody knows
		}
	}
	return verdicts, nil
}

func machineOf(asked question) *cadvisorapi.MachineInfo {
	machine := &cadvisorapi.MachineInfo{}
	for place, each := range asked.Zones {
		node := cadvisorapi.Node{Id: each.ID}
		for range each.CPUs {
			node.Cores = append(node.Cores, cadvisorapi.Core{
				Id: machine.NumCores, Threads: []int{machine.NumCores}, SocketID: place,
			})
			machine.NumCores++
		}
		if each.CPUs > 0 {
			machine.NumSockets++
		}
		machine.Topology = append(machine.Topology, node)
	}
	return machine
}

// -- CPUs --------------------------------------------------------------------------------------------------------

type cpuManager struct {
	policy cpumanager.Policy
	state  cpustate.State
}

func cpusOf(asked question, machine *cadvisorapi.MachineInfo, store topologymanager.Store) (*cpuManager, error) {
	logger := logr.Discard()
	manager := &cpuManager{state: cpustate.NewMemoryState(logger)}
	if !asked.CPUManager {
		policy, err := cpumanager.NewNonePolicy(nil)
		manager.policy = policy
		return manager, err
	}
	topology, err := cputopology.Discover(logger, machine)
	if err != nil {
		return nil, err
	}
	var reserved, used []int
	first := 0
	for _, each := range asked.Zones {
		for number := range each.Reserved {
			reserved = append(reserved, first+number)
		}
		for number := range each.Used {
			used = append(used, first+each.Reserved+number)
		}
		first += each.CPUs
	}
	policy, err := cpumanager.NewStaticPolicy(logger, topology, len(reserved), cpuset.New(reserved...), store, nil)
	if err != nil {
		return nil, err
	}
	taken := cpuset.New(used...)
	manager.policy = policy
	manager.state.SetDefaultCPUSet(topology.CPUDetails.CPUs().Difference(taken))
	if !taken.IsEmpty() {
		manager.state.SetCPUSet("others", "others", taken)
	}
	return manager, policy.Start(logger, manager.state)
}

func (m *cpuManager) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return m.policy.GetTopologyHints(logr.Discard(), m.state, pod, c)
}

func (m *cpuManager) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return m.policy.GetPodTopologyHints(logr.Discard(), m.state, pod)
}

func (m *cpuManager) Allocate(pod *v1.Pod, c *v1.Container) error {
	return m.policy.Allocate(logr.Discard(), m.state, pod, c)
}

func (m *cpuManager) AllocatePod(pod *v1.Pod) error {
	return m.policy.AllocatePod(logr.Discard(), m.state, pod)
}

// -- memory ------------------------------------------------------------------------------------------------------

type memoryManager struct {
	policy memorymanager.Policy
	state  memorystate.State
}

func memoryOf(asked question, machine *cadvisorapi.MachineInfo, store topologymanager.Store) (*memoryManager, error) {
	logger := klog.Background()
	manager := &memoryManager{state: memorystate.NewMemoryState(logger)}
	if !asked.MemoryManager {
		manager.policy = memorymanager.NewPolicyNone(logger)
		return manager, nil
	}
	nodes := memorystate.NUMANodeMap{}
	reserved := map[int]map[v1.ResourceName]uint64{}
	for _, each := range asked.Zones {
		reserved[each.ID] = map[v1.ResourceName]uint64{v1.ResourceMemory: 1}
		node := &memorystate.NUMANodeState{MemoryMap: map[v1.ResourceName]*memorystate.MemoryTable{}, Cells: []int{each.ID}}
		for name, amounts := range each.Memory {
			node.MemoryMap[v1.ResourceName(name)] = &memorystate.MemoryTable{
				TotalMemSize: amounts[0] + 1, SystemReserved: 1, Allocatable: amounts[0],
				Free: amounts[1], Reserved: amounts[0] - amounts[1],
			}
		}
		if len(each.Group) > 0 {
			node.NumberOfAssignments = 1
			node.Cells = append([]int{}, each.Group...)
		}
		nodes[each.ID] = node
	}
	manager.state.SetMachineState(nodes)
	policy, err := memorymanager.NewPolicyStatic(logger, machine, reserved, store)
	manager.policy = policy
	return manager, err
}

func (m *memoryManager) GetTopologyHints(pod *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return m.policy.GetTopologyHints(klog.Background(), m.state, pod, c)
}

func (m *memoryManager) GetPodTopologyHints(pod *v1.Pod) map[string][]topologymanager.TopologyHint {
	return m.policy.GetPodTopologyHints(klog.Background(), m.state, pod)
}

func (m *memoryManager) Allocate(pod *v1.Pod, c *v1.Container) error {
	return m.policy.Allocate(klog.Background(), m.state, pod, c)
}

func (m *memoryManager) AllocatePod(pod *v1.Pod) error {
	return m.policy.AllocatePod(klog.Background(), m.state, pod)
}

// -- devices -----------------------------------------------------------------------------------------------------

type deviceManager struct {
	*devicemanager.ManagerImpl
	pods []*v1.Pod
}

// affinities tells the device manager where those devices are that others have; of pods, what the topology manager says.
type affinities struct {
	topologymanager.Store
	others map[string]int
}

func (a affinities) GetAffinity(pod, container string) topologymanager.TopologyHint {
	if pod != "others" {
		return a.Store.GetAffinity(pod, container)
	}
	mask, _ := bitmask.NewBitMask(a.others[container])
	return topologymanager.TopologyHint{NUMANodeAffinity: mask, Preferred: true}
}

func devicesOf(asked question, machine *cadvisorapi.MachineInfo, store topologymanager.Store, folder string) (*deviceManager, error) {
	logger := klog.Background()
	others := affinities{store, map[string]int{}}
	found, err := newDeviceManager(logger, filepath.Join(folder, "kubelet.sock"), machine.Topology, others)
	if err != nil {
		return nil, err
	}
	manager := &deviceManager{ManagerImpl: found}
	active := func() []*v1.Pod { return manager.pods }
	if err := found.Start(logger, active, ready{}, containermap.NewContainerMap(), sets.New[string]()); err != nil {
		return nil, err
	}
	holder := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "others", UID: "others"}}
	manager.pods = append(manager.pods, holder)
	for name, zones := range asked.Devices {
		var devices []*pluginapi.Device
		for place, counts := range zones {
			at := &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: int64(asked.Zones[place].ID)}}}
			for number := range counts[0] {
				health := pluginapi.Healthy
				if number >= counts[1] {
					health = pluginapi.Unhealthy
				}
				devices = append(devices, &pluginapi.Device{ID: fmt.Sprintf("%d-%d", place, number), Health: health, Topology: at})
			}
		}
		if err := found.PluginConnected(context.Background(), name, plugin(name)); err != nil {
			return nil, err
		}
		found.PluginListAndWatchReceiver(logger, name, &pluginapi.ListAndWatchResponse{Devices: devices})
		for place, counts := range zones {
			if counts[2] == 0 {
				continue
			}
			one := v1.Container{Name: fmt.Sprintf("%s-%d", name, place)}
			one.Resources.Limits = v1.ResourceList{v1.ResourceName(name): *resource.NewQuantity(int64(counts[2]), resource.DecimalSI)}
			others.others[one.Name] = asked.Zones[place].ID
			if err := found.Allocate(holder, &one); err != nil {
				return nil, err
			}
		}
	}
	return manager, nil
}

type ready struct{}

func (ready) AddSource(string) {}
func (ready) AllReady() bool   { return true }

// plugin is a device plugin that says yes to everything and prefers nothing.
type plugin string

func (p plugin) API() pluginapi.DevicePluginClient { return p }
func (p plugin) Resource() string                  { return string(p) }
func (p plugin) SocketPath() string                { return "" }

func (p plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty, ...grpc.CallOption) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{}, nil
}

func (p plugin) Allocate(_ context.Context, asked *pluginapi.AllocateRequest, _ ...grpc.CallOption) (*pluginapi.AllocateResponse, error) {
	given := &pluginapi.AllocateResponse{}
	for range asked.ContainerRequests {
		given.ContainerResponses = append(given.ContainerResponses, &pluginapi.ContainerAllocateResponse{})
	}
	return given, nil
}

func (p plugin) ListAndWatch(context.Context, *pluginapi.Empty, ...grpc.CallOption) (grpc.ServerStreamingClient[pluginapi.ListAndWatchResponse], error) {
	return nil, fmt.Errorf("not asked for")
}

func (p plugin) GetPreferredAllocation(context.Context, *pluginapi.PreferredAllocationRequest, ...grpc.CallOption) (*pluginapi.PreferredAllocationResponse, error) {
	return nil, fmt.Errorf("not asked for")
}

func (p plugin) PreStartContainer(context.Context, *pluginapi.PreStartContainerRequest, ...grpc.CallOption) (*pluginapi.PreStartContainerResponse, error) {
	return nil, fmt.Errorf("not asked for")
}

// -- pods --------------------------------------------------------------------------------------------------------

func podOf(number int, containers []container) *v1.Pod {
	name := fmt.Sprintf("pod-%d", number)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for _, each := range containers {
		made := v1.Container{Name: each.Name}
		made.Resources.Requests = amounts(each.Requests)
		made.Resources.Limits = amounts(each.Limits)
		switch {
		case each.Sidecar:
			always := v1.ContainerRestartPolicyAlways
			made.RestartPolicy = &always
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
		case each.Init:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, made)
		}
	}
	return pod
}

func amounts(told map[string]string) v1.ResourceList {
	found := v1.ResourceList{}
	for name, amount := range told {
		found[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return found
}

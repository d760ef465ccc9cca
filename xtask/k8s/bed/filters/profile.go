package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/features"
	registry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	fwkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// A cluster and a pod. The pod is as its author wrote it; the pods of the cluster are as they were
// answered, with nodes.
type question struct {
	Pod                  *v1.Pod                         `json:"pod"`
	Nodes                []*v1.Node                      `json:"nodes"`
	Pods                 []*v1.Pod                       `json:"pods"`
	Namespaces           []*v1.Namespace                 `json:"namespaces"`
	PVCs                 []*v1.PersistentVolumeClaim     `json:"pvcs"`
	PVs                  []*v1.PersistentVolume          `json:"pvs"`
	StorageClasses       []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes             []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers           []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments    []*storagev1.VolumeAttachment   `json:"volumeAttachments"`
	ResourceClaims       []*resourcev1.ResourceClaim     `json:"resourceClaims"`
	ResourceSlices       []*resourcev1.ResourceSlice     `json:"resourceSlices"`
	DeviceClasses        []*resourcev1.DeviceClass       `json:"deviceClasses"`
}

// Where the pod may run, and why not elsewhere.
type answer struct {
	// The pod as an API server would have taken it.
	Pod *v1.Pod `json:"pod,omitempty"`
	// Why none would have.
	Invalid  string              `json:"invalid,omitempty"`
	Feasible []string            `json:"feasible"`
	Reasons  map[string][]string `json:"reasons"`
	// Which plugin refused the node.
	Plugins map[string]string `json:"plugins"`
	// What made an answer impossible.
	Error string `json:"error,omitempty"`
}

// What the plugins read a cluster's pods and nodes from; they keep this, so what is in it changes.
type state struct{ *internalcache.Snapshot }

// The default profile with all its plugins, over a cluster that is set anew for each question.
type profile struct {
	framework.Framework
	state  *state
	stills map[string]*still
}

func newProfile(ctx context.Context) (*profile, error) {
	metrics.Register()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	stills := map[string]*still{}
	for name, object := range map[string]runtime.Object{
		"pods":                 &v1.Pod{},
		"nodes":                &v1.Node{},
		"namespaces":           &v1.Namespace{},
		"pvcs":                 &v1.PersistentVolumeClaim{},
		"pvs":                  &v1.PersistentVolume{},
		"storageClasses":       &storagev1.StorageClass{},
		"csiNodes":             &storagev1.CSINode{},
		"csiDrivers":           &storagev1.CSIDriver{},
		"csiStorageCapacities": &storagev1.CSIStorageCapacity{},
		"volumeAttachments":    &storagev1.VolumeAttachment{},
		"resourceClaims":       &resourcev1.ResourceClaim{},
		"resourceSlices":       &resourcev1.ResourceSlice{},
		"deviceClasses":        &resourcev1.DeviceClass{},
	} {
		stills[name] = newStill(factory, object)
	}
	dra, err := devices(ctx, factory)
	if err != nil {
		return nil, err
	}
	defaults, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	state := &state{Snapshot: internalcache.NewEmptySnapshot()}
	framework, err := fwkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), defaults,
		fwkruntime.WithClientSet(fake.NewClientset()),
		fwkruntime.WithInformerFactory(factory),
		fwkruntime.WithSharedDRAManager(dra),
		fwkruntime.WithSharedCSIManager(
			nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		fwkruntime.WithSnapshotSharedLister(state),
		// Clusters are small here; a second worker would cost more than it does.
		fwkruntime.WithParallelism(1),
	)
	if err != nil {
		return nil, err
	}
	return &profile{Framework: framework, state: state, stills: stills}, nil
}

// devices is what the scheduler itself sets up for resource claims.
func devices(ctx context.Context, factory informers.SharedInformerFactory) (fwk.SharedDRAManager, error) {
	resources := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(
		klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	options := tracker.Options{
		SliceInformer: resources.ResourceSlices(),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(
			features.DRAConsumableCapacity),
	}
	slices, err := tracker.StartTracker(ctx, options)
	if err != nil {
		return nil, err
	}
	return dynamicresources.NewDRAManager(ctx, claims, slices, factory), nil
}

func defaultProfile() (*config.KubeSchedulerProfile, error) {
	var versioned configv1.KubeSchedulerConfiguration
	scheme.Scheme.Default(&versioned)
	var defaults config.KubeSchedulerConfiguration
	if err := scheme.Scheme.Convert(&versioned, &defaults, nil); err != nil {
		return nil, err
	}
	return &defaults.Profiles[0], nil
}

// load makes the question's cluster the one that the plugins see.
func (p *profile) load(q *question) error {
	for name, objects := range map[string][]runtime.Object{
		"pods":                 list(q.Pods),
		"nodes":                list(q.Nodes),
		"namespaces":           list(q.Namespaces),
		"pvcs":                 list(q.PVCs),
		"pvs":                  list(q.PVs),
		"storageClasses":       list(q.StorageClasses),
		"csiNodes":             list(q.CSINodes),
		"csiDrivers":           list(q.CSIDrivers),
		"csiStorageCapacities": list(q.CSIStorageCapacities),
		"volumeAttachments":    list(q.VolumeAttachments),
		"resourceClaims":       list(q.ResourceClaims),
		"resourceSlices":       list(q.ResourceSlices),
		"deviceClasses":        list(q.DeviceClasses),
	} {
		if err := p.stills[name].set(objects); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	p.state.Snapshot = internalcache.NewSnapshot(q.Pods, q.Nodes)
	return nil
}

func list[T runtime.Object](objects []T) []runtime.Object {
	all := make([]runtime.Object, 0, len(objects))
	for _, object := range objects {
		all = append(all, object)
	}
	return all
}

// take does to a pod what the API server does to one that is made: defaults, label keys merged into
// selectors, validation.
func take(ctx context.Context, told *v1.Pod) (*v1.Pod, error) {
	if told.Namespace == "" {
		told.Namespace = v1.NamespaceDefault
	}
	corev1.SetObjectDefaults_Pod(told)
	var pod core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(told, &pod, nil); err != nil {
		return nil, err
	}
	registry.Strategy.PrepareForCreate(ctx, &pod)
	if errs := registry.Strategy.Validate(ctx, &pod); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	var taken v1.Pod
	err := corev1.Convert_core_Pod_To_v1_Pod(&pod, &taken, nil)
	return &taken, err
}

func (p *profile) answer(ctx context.Context, q *question) *answer {
	a := &answer{
		Feasible: []string{}, Reasons: map[string][]string{}, Plugins: map[string]string{},
	}
	if q.Pod == nil {
		a.Error = "the question has no pod"
		return a
	}
	taken, err := take(ctx, q.Pod)
	if err != nil {
		a.Invalid = err.Error()
		return a
	}
	q.Pod, a.Pod = taken, taken
	if err := p.load(q); err != nil {
		a.Error = err.Error()
		return a
	}
	for _, plugin := range p.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, q.Pod); !status.IsSuccess() {
			status.SetPlugin(plugin.Name())
			p.refuse(a, status)
			return a
		}
	}
	p.filter(ctx, q.Pod, a)
	slices.Sort(a.Feasible)
	return a
}

// filter does what the scheduler does between taking a pod up and comparing nodes.
func (p *profile) filter(ctx context.Context, pod *v1.Pod, a *answer) {
	cycle := framework.NewCycleState()
	only, status, by := p.RunPreFilterPlugins(ctx, cycle, pod)
	if !status.IsSuccess() {
		if status.Plugin() == "" {
			status.SetPlugin(strings.Join(sets.List(by), ","))
		}
		p.refuse(a, status)
		return
	}
	nodes, err := p.state.List()
	if err != nil {
		a.Error = err.Error()
		return
	}
	for _, node := range nodes {
		name := node.Node().Name
		if !only.AllNodes() && !only.NodeNames.Has(name) {
			plugins := sets.List(by)
			a.Reasons[name] = []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", plugins)}
			a.Plugins[name] = strings.Join(plugins, ",")
			continue
		}
		status := p.RunFilterPlugins(ctx, cycle, pod, node)
		if status.IsSuccess() {
			a.Feasible = append(a.Feasible, name)
			continue
		}
		a.note(name, status)
	}
}

// refuse notes for every node that the pod as a whole was refused.
func (p *profile) refuse(a *answer, status *fwk.Status) {
	nodes, err := p.state.List()
	if err != nil {
		a.Error = err.Error()
		return
	}
	if len(nodes) == 0 && status.Code() == fwk.Error {
		a.Error = status.Message()
	}
	for _, node := range nodes {
		a.note(node.Node().Name, status)
	}
}

func (a *answer) note(node string, status *fwk.Status) {
	if status.Code() == fwk.Error {
		a.Error = fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
	}
	a.Reasons[node] = status.Reasons()
	a.Plugins[node] = status.Plugin()
}

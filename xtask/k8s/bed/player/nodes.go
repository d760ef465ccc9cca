package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// Where muster's chart puts it.
	musterNamespace = "muster-system"
	gpuResource     = "nvidia.com/gpu"
	readyWithin     = 2 * time.Minute
	// So many nodes are made at once.
	writers = 32
)

// makeNodes waits until the API server is ready, and registers the nodes as their kubelets would.
func makeNodes(ctx context.Context, client *kubernetes.Clientset, o options) error {
	if err := untilReady(ctx, client); err != nil {
		return err
	}
	for _, name := range []string{musterNamespace, metav1.NamespaceDefault} {
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	indices, failures := make(chan int), make(chan error, writers)
	for range writers {
		go func() {
			for i := range indices {
				if err := register(ctx, client, node(i, o)); err != nil {
					failures <- err
					return
				}
			}
			failures <- nil
		}()
	}
	var failure error
	ended := 0
	for i := 0; i < o.count && failure == nil; {
		select {
		case indices <- i:
			i++
		case failure = <-failures:
			ended++
		}
	}
	close(indices)
	for ; ended < writers; ended++ {
		if err := <-failures; err != nil && failure == nil {
			failure = err
		}
	}
	return failure
}

func untilReady(ctx context.Context, client *kubernetes.Clientset) error {
	var last error
	ready := func(ctx context.Context) (bool, error) {
		last = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyWithin, true, ready)
	if err != nil {
		return fmt.Errorf("the API server is not ready after %v: %w", readyWithin, last)
	}
	return nil
}

func register(ctx context.Context, client *kubernetes.Clientset, node *v1.Node) error {
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("node %s: %w", node.Name, err)
	}
	return nil
}

// node is the node of that number: eight in a rack (with fewer than 16, half of them), racks in
// three zones in turn.
func node(index int, o options) *v1.Node {
	name := fmt.Sprintf("node-%d", index)
	rack := index / max(1, min(8, o.count/2))
	has := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse("64"),
		v1.ResourceMemory:           resource.MustParse("512Gi"),
		v1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		v1.ResourcePods:             resource.MustParse("110"),
	}
	labels := map[string]string{
		v1.LabelHostname:           name,
		v1.LabelOSStable:           "linux",
		v1.LabelArchStable:         "amd64",
		v1.LabelTopologyRegion:     "bed",
		v1.LabelTopologyZone:       "zone-" + string("abc"[rack%3]),
		v1.LabelInstanceTypeStable: "bed.large",
		"rack":                     fmt.Sprintf("rack-%d", rack),
	}
	if o.gpus > 0 {
		has[gpuResource] = *resource.NewQuantity(int64(o.gpus), resource.DecimalSI)
		// As NVIDIA's feature discovery labels a node.
		labels["nvidia.com/gpu.present"] = "true"
		labels["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"
		labels["nvidia.com/gpu.count"] = strconv.Itoa(o.gpus)
		labels["nvidia.com/gpu.memory"] = "81559"
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       v1.NodeSpec{ProviderID: "bed://" + name},
		Status: v1.NodeStatus{
			Capacity:    has,
			Allocatable: has.DeepCopy(),
			Conditions:  conditions(),
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: "127.0.0.1"},
				{Type: v1.NodeHostName, Address: name},
			},
			DaemonEndpoints: v1.NodeDaemonEndpoints{
				KubeletEndpoint: v1.DaemonEndpoint{Port: int32(o.port)},
			},
			NodeInfo: v1.NodeSystemInfo{
				KubeletVersion:          "v1.36.3",
				ContainerRuntimeVersion: "player://1",
				OperatingSystem:         "linux",
				Architecture:            "amd64",
			},
		},
	}
}

func conditions() []v1.NodeCondition {
	now := metav1.Now()
	condition := func(kind v1.NodeConditionType, status v1.ConditionStatus, reason string) v1.NodeCondition {
		return v1.NodeCondition{
			Type: kind, Status: status, Reason: reason,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []v1.NodeCondition{
		condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID"),
		condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady"),
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// status says in a few lines how the bed stands.
func status(ctx context.Context, client *kubernetes.Clientset) error {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var gpus, ready int64
	for _, node := range nodes.Items {
		count := node.Status.Allocatable[gpuResource]
		gpus += count.Value()
		for _, condition := range node.Status.Conditions {
			if condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue {
				ready++
			}
		}
	}
	fmt.Printf("Kubernetes %s: %d nodes, %d ready, %d GPUs\n",
		version.GitVersion, len(nodes.Items), ready, gpus)
	phases := map[string]int{}
	for _, pod := range pods.Items {
		phase := string(pod.Status.Phase)
		if pod.Spec.NodeName == "" && pod.Status.Phase == v1.PodPending {
			phase = "Pending, not bound"
		}
		phases[phase]++
	}
	fmt.Printf("%d pods\n", len(pods.Items))
	for _, phase := range slices.SortedFunc(maps.Keys(phases), cmp.Compare[string]) {
		fmt.Printf("  %-18s %d\n", phase, phases[phase])
	}
	return nil
}

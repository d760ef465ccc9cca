package main

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Amounts by resource, in thousandths.
type amounts map[v1.ResourceName]int64

// What a pod that was taken in holds of its node.
type entry struct {
	node string
	has  amounts
}

// The kubelets' own account of what is in use: what a scheduler gives twice, they refuse.
type books struct {
	sync.Mutex
	used map[string]amounts
	of   map[types.UID]entry
}

// admit takes the pod in, or says why its node has no room for it.
func (k *kubelets) admit(pod *v1.Pod) (reason, message string) {
	k.books.Lock()
	defer k.books.Unlock()
	if _, ok := k.books.of[pod.UID]; ok {
		return "", ""
	}
	node, err := k.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return "NodeLost", fmt.Sprintf("there is no node %s", pod.Spec.NodeName)
	}
	wants := amounts{v1.ResourcePods: 1000}
	for name, quantity := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		wants[name] = quantity.MilliValue()
	}
	used := k.books.used[node.Name]
	// What runs already stays, whatever else: it was taken in by a player before this one.
	if pod.Status.Phase != v1.PodRunning {
		for name, wanted := range wants {
			quantity := node.Status.Allocatable[name]
			if has := quantity.MilliValue(); wanted > 0 && used[name]+wanted > has {
				return "OutOf" + string(name), fmt.Sprintf("Pod was rejected: Node didn't have enough "+
					"resource: %s, requested: %d, used: %d, capacity: %d",
					name, wanted/1000, used[name]/1000, has/1000)
			}
		}
	}
	if used == nil {
		used = amounts{}
		k.books.used[node.Name] = used
	}
	for name, wanted := range wants {
		used[name] += wanted
	}
	k.books.of[pod.UID] = entry{node: node.Name, has: wants}
	return "", ""
}

// release gives back what a pod held.
func (b *books) release(uid types.UID) {
	b.Lock()
	defer b.Unlock()
	held, ok := b.of[uid]
	if !ok {
		return
	}
	for name, amount := range held.has {
		b.used[held.node][name] -= amount
	}
	delete(b.of, uid)
}

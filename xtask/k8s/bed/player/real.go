package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
)

// The runner of a bed in which pods truly run: as processes of this host, each container in
// namespaces of its own for mounts, processes and the host's name. The network is the host's; every
// pod has a loopback address.
type real struct {
	*kubelets
	// What plays pods that name no command: there is no image to take one from.
	played   *fast
	services corelisters.ServiceLister
	dir      string

	sync.Mutex
	runs map[types.UID]*podRun
	// The number in the address of the pod before.
	address int
	// By node, who holds which GPU.
	gpus map[string]map[int]types.UID
}

func newReal(k *kubelets, services corelisters.ServiceLister, dir string) (*real, error) {
	dir, err := filepath.Abs(filepath.Join(dir, "pods"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &real{
		kubelets: k, services: services, dir: dir,
		played: &fast{kubelets: k, started: map[types.UID]time.Time{}},
		runs:   map[types.UID]*podRun{}, gpus: map[string]map[int]types.UID{},
	}, nil
}

func (r *real) step(ctx context.Context, pod *v1.Pod) error {
	for _, container := range pod.Spec.Containers {
		if len(container.Command)+len(container.Args) == 0 {
			return r.played.step(ctx, pod)
		}
	}
	r.Lock()
	defer r.Unlock()
	if r.runs[pod.UID] != nil {
		return nil
	}
	r.address++
	// Of 127/8, above what other programs take.
	ip := fmt.Sprintf("127.%d.%d.%d", 64+r.address>>16&0x3f, r.address>>8&0xff, r.address&0xff)
	run := newRun(r, pod, ip)
	r.runs[pod.UID] = run
	run.gpus = r.takeGPUs(pod)
	go run.main(ctx)
	return nil
}

func (r *real) ended(pod *v1.Pod) bool {
	r.Lock()
	run := r.runs[pod.UID]
	r.Unlock()
	if run == nil {
		return true
	}
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	run.stop("", "", grace)
	return run.over()
}

func (r *real) forget(uid types.UID) {
	r.played.forget(uid)
	r.Lock()
	run := r.runs[uid]
	delete(r.runs, uid)
	r.Unlock()
	if run != nil {
		_ = os.RemoveAll(run.dir)
	}
}

// takeGPUs gives the pod the first free GPUs of its node, as a device plugin would.
func (r *real) takeGPUs(pod *v1.Pod) []int {
	wanted := int64(0)
	for _, container := range pod.Spec.Containers {
		limit := container.Resources.Limits[gpuResource]
		wanted += limit.Value()
	}
	held := r.gpus[pod.Spec.NodeName]
	if held == nil {
		held = map[int]types.UID{}
		r.gpus[pod.Spec.NodeName] = held
	}
	var taken []int
	for index := 0; int64(len(taken)) < wanted; index++ {
		if _, ok := held[index]; !ok {
			held[index] = pod.UID
			taken = append(taken, index)
		}
	}
	return taken
}

func (r *real) giveGPUs(pod *v1.Pod, indices []int) {
	r.Lock()
	defer r.Unlock()
	for _, index := range indices {
		delete(r.gpus[pod.Spec.NodeName], index)
	}
}

// find is the run of the pod of that name; of several one after the other, the last.
func (r *real) find(namespace, name string) *podRun {
	r.Lock()
	defer r.Unlock()
	var found *podRun
	for _, run := range r.runs {
		of := run.pod.Namespace == namespace && run.pod.Name == name
		if of && (found == nil || run.began.After(found.began)) {
			found = run
		}
	}
	return found
}

// tellNames writes the hosts file of every pod of the namespace: a headless service names its pods.
func (r *real) tellNames(namespace string) {
	r.Lock()
	defer r.Unlock()
	var runs []*podRun
	for _, run := range r.runs {
		if run.pod.Namespace == namespace && !run.over() {
			runs = append(runs, run)
		}
	}
	slices.SortFunc(runs, func(a, b *podRun) int { return strings.Compare(a.ip, b.ip) })
	var lines strings.Builder
	for _, run := range runs {
		if names := r.names(run.pod); len(names) > 0 {
			fmt.Fprintf(&lines, "%s\t%s\n", run.ip, strings.Join(names, " "))
		}
	}
	for _, run := range runs {
		run.writeHosts(lines.String())
	}
}

// names are those of DNS for a pod: of the service that its subdomain is, if that selects it.
func (r *real) names(pod *v1.Pod) []string {
	domain := pod.Spec.Subdomain
	if domain == "" {
		return nil
	}
	service, err := r.services.Services(pod.Namespace).Get(domain)
	if err != nil || service.Spec.ClusterIP != v1.ClusterIPNone || len(service.Spec.Selector) == 0 {
		return nil
	}
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			return nil
		}
	}
	// The host's name alone is found where the pod looks in its own domain first.
	names := []string{hostname(pod)}
	for _, prefix := range []string{hostname(pod) + ".", ""} {
		short := prefix + domain
		names = append(names, short, short+"."+pod.Namespace, short+"."+pod.Namespace+".svc",
			short+"."+pod.Namespace+".svc.cluster.local")
	}
	return names
}

func hostname(pod *v1.Pod) string {
	if pod.Spec.Hostname != "" {
		return pod.Spec.Hostname
	}
	return pod.Name
}

func visible(indices []int) string {
	var words []string
	for _, index := range indices {
		words = append(words, strconv.Itoa(index))
	}
	return strings.Join(words, ",")
}

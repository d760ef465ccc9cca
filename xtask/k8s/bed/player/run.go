package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// What is not there yet (a ConfigMap, a claim) is looked for again after so long.
	lookAgain = time.Second
	// A container that ended is started again after so long, and twice that each time after.
	backoffFirst = 10 * time.Second
	backoffMost  = 5 * time.Minute
)

// A pod that runs.
type podRun struct {
	*real
	pod  *v1.Pod
	ip   string
	dir  string
	gpus []int
	// Where each volume lies.
	volumes map[string]string
	began   time.Time
	done    chan struct{}
	// Closed when the pod is to end.
	stopping chan struct{}
	// Closed when its main containers have ended, so that those beside them are to end.
	finished chan struct{}

	state    sync.Mutex
	grace    time.Duration
	stopped  bool
	reason   string
	message  string
	statuses map[string]v1.ContainerStatus
	failed   bool
	// The first process of each container that runs.
	processes map[string]int
	// One at a time writes the status, so that none is overtaken by an older one.
	reporting sync.Mutex
}

func newRun(r *real, pod *v1.Pod, ip string) *podRun {
	return &podRun{
		real: r, pod: pod, ip: ip,
		dir:   filepath.Join(r.dir, string(pod.UID)),
		began: time.Now(),
		done:  make(chan struct{}), stopping: make(chan struct{}), finished: make(chan struct{}),
		statuses: map[string]v1.ContainerStatus{},
	}
}

// main lives as long as the pod.
func (r *podRun) main(ctx context.Context) {
	defer func() {
		close(r.done)
		r.giveGPUs(r.pod, r.gpus)
		r.tellNames(r.pod.Namespace)
		if key, err := cache.MetaNamespaceKeyFunc(r.pod); err == nil {
			r.queue.Add(key)
		}
	}()
	if limit := r.pod.Spec.ActiveDeadlineSeconds; limit != nil {
		timer := time.AfterFunc(time.Duration(*limit)*time.Second, func() {
			r.stop("DeadlineExceeded", "Pod was active on the node longer than the specified deadline",
				r.usualGrace())
		})
		defer timer.Stop()
	}
	r.report(ctx)
	if r.prepare(ctx) {
		r.containers(ctx)
	}
	r.report(ctx)
}

// prepare brings about what the containers need; false if the pod is to end before that.
func (r *podRun) prepare(ctx context.Context) bool {
	for {
		err := os.MkdirAll(r.dir, 0o755)
		if err == nil {
			err = r.makeVolumes(ctx)
		}
		if err == nil {
			r.writeHosts("")
			r.tellNames(r.pod.Namespace)
			return true
		}
		for _, container := range r.pod.Spec.Containers {
			r.waits(&container, "ContainerCreating", err.Error())
		}
		r.report(ctx)
		if !r.pause(lookAgain, nil) {
			return false
		}
	}
}

// containers runs those that come first one after another, then the others together.
func (r *podRun) containers(ctx context.Context) {
	var beside, together sync.WaitGroup
	for i := range r.pod.Spec.InitContainers {
		container := &r.pod.Spec.InitContainers[i]
		if isSidecar(container) {
			beside.Go(func() { r.keep(ctx, container, v1.RestartPolicyAlways, r.finished) })
			continue
		}
		policy := r.pod.Spec.RestartPolicy
		if policy == v1.RestartPolicyAlways {
			policy = v1.RestartPolicyOnFailure
		}
		if r.keep(ctx, container, policy, nil); r.isFailed() || r.isStopped() {
			break
		}
	}
	if !r.isFailed() && !r.isStopped() {
		for i := range r.pod.Spec.Containers {
			container := &r.pod.Spec.Containers[i]
			together.Go(func() { r.keep(ctx, container, r.pod.Spec.RestartPolicy, nil) })
		}
	}
	together.Wait()
	close(r.finished)
	beside.Wait()
}

// keep runs a container until its policy lets it be. What closes `until` ends it too.
func (r *podRun) keep(ctx context.Context, c *v1.Container, p v1.RestartPolicy, until <-chan struct{}) {
	backoff := backoffFirst
	for attempt := 0; ; attempt++ {
		began := metav1.Now()
		code, err := r.execute(ctx, c, attempt, until)
		if err != nil && code == 0 {
			// It could not even be set up; what is missing may come.
			r.waits(c, "CreateContainerConfigError", err.Error())
			r.report(ctx)
			if !r.pause(lookAgain, until) {
				return
			}
			attempt--
			continue
		}
		r.ends(c, code, began, err)
		if r.isStopped() || p == v1.RestartPolicyNever || p == v1.RestartPolicyOnFailure && code == 0 {
			if code != 0 && until == nil {
				r.fail()
			}
			if !r.isStopped() {
				r.report(ctx)
			}
			return
		}
		r.backsOff(c, backoff)
		r.report(ctx)
		if !r.pause(backoff, until) {
			r.fail()
			return
		}
		backoff = min(2*backoff, backoffMost)
	}
}

// pause waits; false if the pod, or this container, is to end meanwhile.
func (r *podRun) pause(length time.Duration, until <-chan struct{}) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-r.stopping:
		return false
	case <-until:
		return false
	case <-timer.C:
		return true
	}
}

// stop makes the pod end: a signal, and another one that cannot be ignored after the grace.
func (r *podRun) stop(reason, message string, grace int64) {
	r.state.Lock()
	defer r.state.Unlock()
	if r.stopped {
		return
	}
	r.stopped, r.grace = true, time.Duration(grace)*time.Second
	r.reason, r.message = reason, message
	close(r.stopping)
}

func (r *podRun) usualGrace() int64 {
	if r.pod.Spec.TerminationGracePeriodSeconds != nil {
		return *r.pod.Spec.TerminationGracePeriodSeconds
	}
	return v1.DefaultTerminationGracePeriodSeconds
}

func (r *podRun) isStopped() bool {
	r.state.Lock()
	defer r.state.Unlock()
	return r.stopped
}

func (r *podRun) isFailed() bool {
	r.state.Lock()
	defer r.state.Unlock()
	return r.failed
}

func (r *podRun) fail() {
	r.state.Lock()
	defer r.state.Unlock()
	r.failed = true
}

func (r *podRun) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func isSidecar(container *v1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == v1.ContainerRestartPolicyAlways
}

// writeHosts writes the pod's own hosts file with these lines at its end. Containers have the file
// itself, so it is filled anew and not replaced.
func (r *podRun) writeHosts(lines string) {
	text := fmt.Sprintf("127.0.0.1\tlocalhost\n::1\tlocalhost\n%s\t%s\n%s", r.ip, hostname(r.pod), lines)
	path := filepath.Join(r.dir, "hosts")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteAt([]byte(text), 0); err == nil {
		_ = file.Truncate(int64(len(text)))
	}
}

package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes the pod's status until the API server takes it.
func (r *podRun) report(ctx context.Context) {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	for {
		err := r.patch(ctx, r.pod, r.status())
		if err == nil || ctx.Err() != nil {
			return
		}
		fmt.Printf("%s/%s: %v\n", r.pod.Namespace, r.pod.Name, err)
		time.Sleep(lookAgain)
	}
}

func (r *podRun) status() v1.PodStatus {
	r.state.Lock()
	defer r.state.Unlock()
	began, now := metav1.NewTime(r.began), metav1.Now()
	status := v1.PodStatus{
		HostIP: "127.0.0.1", PodIP: r.ip, PodIPs: []v1.PodIP{{IP: r.ip}}, StartTime: &began,
		Phase: v1.PodPending, Reason: r.reason, Message: r.message,
	}
	started, ready, live, failed := false, true, false, r.failed
	for i := range r.pod.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses,
			r.statusOf(&r.pod.Spec.InitContainers[i]))
	}
	for i := range r.pod.Spec.Containers {
		one := r.statusOf(&r.pod.Spec.Containers[i])
		status.ContainerStatuses = append(status.ContainerStatuses, one)
		started = started || one.State.Waiting == nil || one.RestartCount > 0
		ready = ready && one.Ready
		live = live || one.State.Running != nil
		failed = failed || one.State.Terminated == nil || one.State.Terminated.ExitCode != 0
	}
	why := ""
	switch {
	case r.allOver():
		status.Phase, ready, why = v1.PodSucceeded, false, "PodCompleted"
		if failed || r.reason != "" {
			status.Phase, why = v1.PodFailed, "PodFailed"
		}
	case started:
		status.Phase = v1.PodRunning
	}
	is := func(yes bool) v1.ConditionStatus {
		if yes {
			return v1.ConditionTrue
		}
		return v1.ConditionFalse
	}
	status.Conditions = podConditions(is(ready && live), why, now)
	return status
}

// allOver says whether no container runs or will run again; called with the state locked.
func (r *podRun) allOver() bool {
	select {
	case <-r.finished:
	default:
		return r.stopped && len(r.statuses) == 0
	}
	for _, status := range r.statuses {
		if status.State.Running != nil {
			return false
		}
	}
	return true
}

func (r *podRun) statusOf(c *v1.Container) v1.ContainerStatus {
	if status, ok := r.statuses[c.Name]; ok {
		return status
	}
	return containerStatus(c, v1.ContainerState{
		Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"},
	})
}

// set replaces a container's state and keeps the end of the run before.
func (r *podRun) set(c *v1.Container, state v1.ContainerState) {
	r.state.Lock()
	defer r.state.Unlock()
	before, had := r.statuses[c.Name]
	status := containerStatus(c, state)
	if had {
		status.RestartCount, status.LastTerminationState = before.RestartCount, before.LastTerminationState
		if before.State.Terminated != nil {
			status.LastTerminationState = before.State
		}
		if state.Running != nil && status.LastTerminationState.Terminated != nil {
			status.RestartCount++
		}
	}
	r.statuses[c.Name] = status
}

func (r *podRun) waits(c *v1.Container, reason, message string) {
	r.set(c, v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func (r *podRun) runs(c *v1.Container, began metav1.Time) {
	r.set(c, v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: began}})
}

func (r *podRun) ends(c *v1.Container, code int32, began metav1.Time, err error) {
	state := terminated(code, began, metav1.Now())
	state.Terminated.Message = r.said(c)
	if err != nil {
		state.Terminated.Reason, state.Terminated.Message = "StartError", err.Error()
	}
	r.set(c, state)
}

func (r *podRun) backsOff(c *v1.Container, length time.Duration) {
	r.waits(c, "CrashLoopBackOff", fmt.Sprintf("back-off %v restarting failed container=%s pod=%s",
		length, c.Name, r.pod.Name))
}

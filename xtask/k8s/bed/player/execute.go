package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// As much of what a container says at its end is told (the API's limit).
	messageMost = 4096
	// What the shell says of a signal, and so does a container runtime.
	signalled = 128
)

// execute runs a container once. No code and an error: it could not be set up.
func (r *podRun) execute(
	ctx context.Context, c *v1.Container, attempt int, until <-chan struct{},
) (int32, error) {
	spec, err := r.surroundings(ctx, c)
	if err != nil {
		return 0, err
	}
	if len(spec.Argv) == 0 {
		return 0, errors.New("no command: the player has no images to take one from")
	}
	output, err := os.OpenFile(r.log(c.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = output.Close() }()
	cmd, err := enter(spec)
	if err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = output, output
	began := metav1.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	r.hold(c.Name, cmd.Process.Pid)
	r.runs(c, began)
	go r.report(ctx)
	ended := make(chan struct{})
	go r.endWith(cmd.Process, until, ended)
	_ = cmd.Wait()
	close(ended)
	r.hold(c.Name, 0)
	return code(cmd.ProcessState), nil
}

// surroundings is what a container finds.
func (r *podRun) surroundings(ctx context.Context, c *v1.Container) (insideSpec, error) {
	env, err := r.environment(ctx, c)
	if err != nil {
		return insideSpec{}, err
	}
	values := map[string]string{}
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		values[name] = value
	}
	spec := insideSpec{
		Root: filepath.Join(r.dir, "root-"+c.Name), Env: env, Hostname: hostname(r.pod),
		Dir: c.WorkingDir, UID: 0, GID: 0,
		Mounts: []insideMount{{Source: filepath.Join(r.dir, "hosts"), Target: "/etc/hosts"}},
	}
	for _, word := range append(append([]string{}, c.Command...), c.Args...) {
		spec.Argv = append(spec.Argv, expand(word, values))
	}
	for _, mount := range c.VolumeMounts {
		dir, ok := r.volumes[mount.Name]
		if !ok {
			return spec, fmt.Errorf("no volume is called %s", mount.Name)
		}
		spec.Mounts = append(spec.Mounts, insideMount{
			Source: filepath.Join(dir, mount.SubPath), Target: mount.MountPath, ReadOnly: mount.ReadOnly,
		})
	}
	last := r.lastWords(c)
	if err := os.WriteFile(last, nil, 0o666); err != nil {
		return spec, err
	}
	if err := os.Chmod(last, 0o666); err != nil {
		return spec, err
	}
	// Below /dev nothing can be made: that is the host's.
	if !strings.HasPrefix(c.TerminationMessagePath, "/dev/") {
		spec.Mounts = append(spec.Mounts, insideMount{Source: last, Target: c.TerminationMessagePath})
	}
	if all := r.pod.Spec.SecurityContext; all != nil {
		if all.RunAsUser != nil {
			spec.UID = int(*all.RunAsUser)
		}
		if all.RunAsGroup != nil {
			spec.GID = int(*all.RunAsGroup)
		}
		for _, group := range all.SupplementalGroups {
			spec.Groups = append(spec.Groups, int(group))
		}
	}
	if own := c.SecurityContext; own != nil && own.RunAsUser != nil {
		spec.UID = int(*own.RunAsUser)
	}
	return spec, nil
}

// enter is the command that becomes the container.
func enter(spec insideSpec) (*exec.Cmd, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe", insideName)
	cmd.Stdin = nil
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, _ = write.Write(text)
		_ = write.Close()
	}()
	cmd.ExtraFiles = []*os.File{read}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Setsid:     true,
		// With the player ends what it plays.
		Pdeathsig: syscall.SIGKILL,
	}
	return cmd, nil
}

// endWith ends the container with the pod, or with what it stands beside.
func (r *podRun) endWith(process *os.Process, until, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-r.stopping:
	case <-until:
	}
	_ = process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(r.graceOrUsual())
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		// Everything in its namespace of processes ends with the first.
		_ = process.Kill()
	}
}

func (r *podRun) graceOrUsual() time.Duration {
	r.state.Lock()
	defer r.state.Unlock()
	if r.stopped {
		return r.grace
	}
	return time.Duration(r.usualGrace()) * time.Second
}

func code(state *os.ProcessState) int32 {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return signalled + int32(status.Signal())
	}
	return int32(state.ExitCode())
}

func (r *podRun) log(container string) string { return filepath.Join(r.dir, container+".log") }

func (r *podRun) lastWords(c *v1.Container) string { return filepath.Join(r.dir, c.Name+".last") }

// said is what the container wrote for those who ask how it ended.
func (r *podRun) said(c *v1.Container) string {
	text, err := os.ReadFile(r.lastWords(c))
	if err != nil {
		return ""
	}
	return string(bytes.ToValidUTF8(text[:min(len(text), messageMost)], nil))
}

// hold notes the first process of a container; none is 0.
func (r *podRun) hold(container string, pid int) {
	r.state.Lock()
	defer r.state.Unlock()
	if r.processes == nil {
		r.processes = map[string]int{}
	}
	r.processes[container] = pid
}

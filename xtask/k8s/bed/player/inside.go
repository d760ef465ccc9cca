package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// What the player calls itself where it makes a container's surroundings.
const insideName = "inside"

// A file or folder of the host that a container sees somewhere else.
type insideMount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// What a container finds, and what runs in it.
type insideSpec struct {
	Root     string
	Mounts   []insideMount
	Argv     []string
	Env      []string
	Dir      string
	Hostname string
	UID      int
	GID      int
	Groups   []int
}

// inside is the first process of the container's namespaces: it makes what the container sees, and
// becomes its program. The host's folders stand for an image.
func inside() {
	runtime.LockOSThread()
	var spec insideSpec
	text := os.NewFile(3, "spec")
	err := json.NewDecoder(text).Decode(&spec)
	_ = text.Close()
	if err == nil {
		err = spec.become()
	}
	fmt.Fprintln(os.Stderr, "player:", err)
	os.Exit(signalled)
}

func (s *insideSpec) become() error {
	if err := s.makeRoot(); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(s.Hostname)); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	if err := syscall.Chroot(s.Root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	dir := s.Dir
	if dir == "" {
		dir = "/"
	}
	if err := syscall.Chdir(dir); err != nil {
		return fmt.Errorf("chdir to %s: %w", dir, err)
	}
	if err := syscall.Setgroups(s.Groups); err != nil {
		return err
	}
	if err := syscall.Setgid(s.GID); err != nil {
		return err
	}
	if err := syscall.Setuid(s.UID); err != nil {
		return err
	}
	for _, line := range s.Env {
		if path, ok := strings.CutPrefix(line, "PATH="); ok {
			_ = os.Setenv("PATH", path)
		}
	}
	program, err := exec.LookPath(s.Argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(program, s.Argv, s.Env)
}

// makeRoot makes a root of its own from the host's folders, with more in it.
func (s *insideSpec) makeRoot() error {
	private := uintptr(syscall.MS_REC | syscall.MS_PRIVATE)
	if err := syscall.Mount("", "/", "", private, ""); err != nil {
		return fmt.Errorf("a namespace of mounts: %w", err)
	}
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", s.Root, "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("tmpfs at %s: %w", s.Root, err)
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := s.show(entry); err != nil {
			return fmt.Errorf("/%s: %w", entry.Name(), err)
		}
	}
	for _, mount := range s.Mounts {
		if err := s.mount(mount); err != nil {
			return fmt.Errorf("%s at %s: %w", mount.Source, mount.Target, err)
		}
	}
	return nil
}

// show makes one entry of the host's root seen.
func (s *insideSpec) show(entry os.DirEntry) error {
	from, to := filepath.Join("/", entry.Name()), filepath.Join(s.Root, entry.Name())
	switch {
	case entry.Type()&os.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !entry.IsDir():
		return nil
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	if entry.Name() == "proc" {
		return syscall.Mount("proc", to, "proc", 0, "")
	}
	return syscall.Mount(from, to, "", syscall.MS_BIND|syscall.MS_REC, "")
}

func (s *insideSpec) mount(m insideMount) error {
	target := filepath.Join(s.Root, m.Target)
	info, err := os.Stat(m.Source)
	if err != nil {
		return err
	}
	if _, err := os.Stat(target); err != nil {
		if err := makeTarget(target, info.IsDir()); err != nil {
			return err
		}
	}
	if err := syscall.Mount(m.Source, target, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return err
	}
	if !m.ReadOnly {
		return nil
	}
	again := uintptr(syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY)
	return syscall.Mount("", target, "", again, "")
}

func makeTarget(target string, folder bool) error {
	if folder {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o644)
}

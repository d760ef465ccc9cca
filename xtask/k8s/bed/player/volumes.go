package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeVolumes brings about the folders that the pod's volumes are. An error is tried again: what a
// volume comes from may not be there yet.
func (r *podRun) makeVolumes(ctx context.Context) error {
	r.volumes = map[string]string{}
	for i := range r.pod.Spec.Volumes {
		volume := &r.pod.Spec.Volumes[i]
		dir, err := r.volume(ctx, volume)
		if err != nil {
			return fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", volume.Name, err)
		}
		r.volumes[volume.Name] = dir
	}
	return nil
}

func (r *podRun) volume(ctx context.Context, volume *v1.Volume) (string, error) {
	own := filepath.Join(r.dir, "volumes", volume.Name)
	core := r.client.CoreV1()
	switch {
	case volume.HostPath != nil:
		return r.hostPath(volume.HostPath)
	case volume.PersistentVolumeClaim != nil:
		return r.claimed(ctx, volume.PersistentVolumeClaim.ClaimName)
	case volume.Secret != nil:
		secret, err := core.Secrets(r.pod.Namespace).
			Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return own, fill(own, secret.Data, volume.Secret.Items, volume.Secret.DefaultMode)
	case volume.ConfigMap != nil:
		found, err := core.ConfigMaps(r.pod.Namespace).
			Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		data := found.BinaryData
		if data == nil {
			data = map[string][]byte{}
		}
		for name, text := range found.Data {
			data[name] = []byte(text)
		}
		return own, fill(own, data, volume.ConfigMap.Items, volume.ConfigMap.DefaultMode)
	case volume.EmptyDir != nil, volume.Projected != nil:
		// Of what is projected, service accounts' tokens: the bed gives none.
		if err := os.MkdirAll(own, 0o777); err != nil {
			return "", err
		}
		return own, os.Chmod(own, 0o777)
	}
	return "", fmt.Errorf("the player does not know its kind")
}

func (r *podRun) hostPath(source *v1.HostPathVolumeSource) (string, error) {
	if source.Type != nil && *source.Type == v1.HostPathDirectoryOrCreate {
		return source.Path, os.MkdirAll(source.Path, 0o755)
	}
	_, err := os.Stat(source.Path)
	return source.Path, err
}

// claimed is where the volume lies that a claim is bound to.
func (r *podRun) claimed(ctx context.Context, name string) (string, error) {
	core := r.client.CoreV1()
	claim, err := core.PersistentVolumeClaims(r.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if claim.Spec.VolumeName == "" {
		return "", fmt.Errorf("claim %s is not bound", name)
	}
	volume, err := core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	switch {
	case volume.Spec.HostPath != nil:
		return r.hostPath(volume.Spec.HostPath)
	case volume.Spec.Local != nil:
		return volume.Spec.Local.Path, nil
	}
	return "", fmt.Errorf("volume %s is no folder of this host", volume.Name)
}

// fill writes data as files: all of it, or the items under the paths that these give them.
func fill(dir string, data map[string][]byte, items []v1.KeyToPath, usual *int32) error {
	mode := int32(0o644)
	if usual != nil {
		mode = *usual
	}
	if items == nil {
		for key := range data {
			items = append(items, v1.KeyToPath{Key: key, Path: key})
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, item := range items {
		bytes, ok := data[item.Key]
		if !ok {
			return fmt.Errorf("references non-existent key: %s", item.Key)
		}
		own := mode
		if item.Mode != nil {
			own = *item.Mode
		}
		path := filepath.Join(dir, item.Path)
		if !strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("the path %s leads out", item.Path)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, bytes, os.FileMode(own)); err != nil {
			return err
		}
	}
	return nil
}

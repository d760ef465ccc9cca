package main

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an image would say where the pod does not.
const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is that of a container, as NAME=value.
func (r *podRun) environment(ctx context.Context, c *v1.Container) ([]string, error) {
	names := []string{"PATH", "HOSTNAME", "NVIDIA_VISIBLE_DEVICES"}
	values := map[string]string{
		"PATH": usualPath, "HOSTNAME": hostname(r.pod), "NVIDIA_VISIBLE_DEVICES": "void",
	}
	if len(r.gpus) > 0 {
		values["NVIDIA_VISIBLE_DEVICES"] = visible(r.gpus)
	}
	put := func(name, value string) {
		if _, ok := values[name]; !ok {
			names = append(names, name)
		}
		values[name] = value
	}
	for _, from := range c.EnvFrom {
		data, err := r.all(ctx, from)
		if err != nil {
			return nil, err
		}
		for key, value := range data {
			put(from.Prefix+key, value)
		}
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			put(variable.Name, expand(variable.Value, values))
			continue
		}
		value, found, err := r.valueOf(ctx, variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if found {
			put(variable.Name, value)
		}
	}
	var lines []string
	for _, name := range names {
		lines = append(lines, name+"="+values[name])
	}
	return lines, nil
}

// all that a secret or configuration gives to the environment.
func (r *podRun) all(ctx context.Context, from v1.EnvFromSource) (map[string]string, error) {
	core, values := r.client.CoreV1(), map[string]string{}
	switch {
	case from.SecretRef != nil:
		found, err := core.Secrets(r.pod.Namespace).Get(ctx, from.SecretRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for key, value := range found.Data {
			values[key] = string(value)
		}
	case from.ConfigMapRef != nil:
		found, err := core.ConfigMaps(r.pod.Namespace).Get(ctx, from.ConfigMapRef.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		values = found.Data
	}
	return values, nil
}

func (r *podRun) valueOf(ctx context.Context, from *v1.EnvVarSource) (string, bool, error) {
	core := r.client.CoreV1()
	switch {
	case from.FieldRef != nil:
		value, err := r.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.SecretKeyRef != nil:
		found, err := core.Secrets(r.pod.Namespace).Get(ctx, from.SecretKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", false, err
		}
		value, ok := found.Data[from.SecretKeyRef.Key]
		return string(value), ok, nil
	case from.ConfigMapKeyRef != nil:
		found, err := core.ConfigMaps(r.pod.Namespace).Get(ctx, from.ConfigMapKeyRef.Name, metav1.GetOptions{})
		if err != nil {
			return "", false, err
		}
		value, ok := found.Data[from.ConfigMapKeyRef.Key]
		return value, ok, nil
	}
	return "", false, fmt.Errorf("the player does not know its source")
}

// field is a field of the pod as the downward API names it.
func (r *podRun) field(path string) (string, error) {
	for prefix, of := range map[string]map[string]string{
		"metadata.annotations": r.pod.Annotations, "metadata.labels": r.pod.Labels,
	} {
		if key, ok := strings.CutPrefix(path, prefix+"['"); ok {
			return of[strings.TrimSuffix(key, "']")], nil
		}
	}
	switch path {
	case "metadata.name":
		return r.pod.Name, nil
	case "metadata.namespace":
		return r.pod.Namespace, nil
	case "metadata.uid":
		return string(r.pod.UID), nil
	case "spec.nodeName":
		return r.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return r.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return r.ip, nil
	case "status.hostIP", "status.hostIPs":
		return "127.0.0.1", nil
	}
	return "", fmt.Errorf("the player does not know the field %s", path)
}

// expand puts values in for $(NAME); $$ is a dollar.
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		if strings.HasPrefix(rest, "$$") {
			out.WriteByte('$')
			i++
			continue
		}
		if end := strings.IndexByte(rest, ')'); strings.HasPrefix(rest, "$(") && end > 0 {
			if value, ok := values[rest[2:end]]; ok {
				out.WriteString(value)
				i += end
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// Package chart holds the Helm chart against the plain manifest, rendered by Helm's own library.
package chart

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
	"sigs.k8s.io/yaml"
)

const folder = "../../../packaging/kubernetes/"

var between = regexp.MustCompile(`(?m)^---\n`)

// render gives the objects of the chart in a namespace, with values as `--set` takes them.
func render(namespace string, set ...string) (map[string]any, error) {
	chart, err := loader.Load(folder + "chart")
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	values := map[string]any{}
	for _, one := range set {
		if err := strvals.ParseInto(one, values); err != nil {
			return nil, err
		}
	}
	release := common.ReleaseOptions{Name: "m", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	texts := slices.Collect(maps.Values(files))
	return objects(strings.Join(texts, "\n---\n"))
}

// objects gives the objects of a text by kind and name.
func objects(text string) (map[string]any, error) {
	found := map[string]any{}
	for _, one := range between.Split(text, -1) {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(one), &object); err != nil {
			return nil, err
		}
		if object == nil {
			continue
		}
		name := object["metadata"].(map[string]any)["name"]
		found[object["kind"].(string)+" "+name.(string)] = object
	}
	return found, nil
}

func TestAsItIsItMakesThePlainManifest(t *testing.T) {
	made, err := render("muster-system")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(folder + "muster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := objects(string(text))
	if err != nil {
		t.Fatal(err)
	}
	// Helm makes it where it is told to (`--create-namespace`).
	delete(plain, "Namespace muster-system")
	for _, name := range slices.Sorted(maps.Keys(plain)) {
		if !reflect.DeepEqual(made[name], plain[name]) {
			t.Errorf("%s:\n%v\nin the manifest\n%v", name, made[name], plain[name])
		}
		delete(made, name)
	}
	if len(plain) < 6 || len(made) > 0 {
		t.Errorf("%d in the manifest, and more in the chart: %v", len(plain), made)
	}
}

func TestValuesReachTheDeployment(t *testing.T) {
	made, err := render("batch", "schedulerName=second", "connections=8", "metricsPort=9000",
		"image.tag=", "priorityClassName=", "tolerations[0].operator=Exists", "nodeSelector.a=b",
		"image.pullSecrets[0].name=key", "replicas=1")
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := yaml.Marshal(made["Deployment second"])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"namespace: batch", "replicas: 1", "image: muster:0.1.0",
		"- 0.0.0.0:9000", "- --scheduler-name\n        - second", "- --lease-namespace\n        - batch",
		"- --connections\n        - \"8\"", "containerPort: 9000", "serviceAccountName: second",
		"- operator: Exists", "a: b", "- name: key"} {
		if !strings.Contains(string(deployment), part) {
			t.Errorf("no %q in\n%s", part, deployment)
		}
	}
	if strings.Contains(string(deployment), "priorityClassName") {
		t.Error("a priority class though none is named")
	}
	if made["ClusterRole second"] == nil || made["Role second"] == nil {
		t.Errorf("rights are missing: %v", slices.Sorted(maps.Keys(made)))
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for _, bad := range []string{"replicas=-1", "foo=1", "schedulerName=A_b", "connections=0",
		"metricsPort=80", "image.pullPolicy=Sometimes"} {
		if _, err := render("muster-system", bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

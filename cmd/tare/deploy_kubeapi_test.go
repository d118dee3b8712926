package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// kubeObjects decodes documents by the types of Kubernetes' API, as kubectl --dry-run=client --validate=strict does: an
// unknown kind or field, a field that is there twice, and a value of another type are errors.
func kubeObjects(text []byte) (kinds []string, err error) {
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	for {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return kinds, nil
		}
		if err != nil {
			return kinds, err
		}
		_, kind, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			return kinds, err
		}
		kinds = append(kinds, kind.Kind)
	}
}

// TestKubernetesTypes decodes the manifests of deploy and of the guide, and expects errors of wrong ones.
func TestKubernetesTypes(t *testing.T) {
	found := make(map[string]int)
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	must(t, err)
	texts := make(map[string][]byte)
	for _, file := range files {
		texts[file], err = os.ReadFile(file)
		must(t, err)
	}
	guide, err := os.ReadFile("../../docs/start/deploy.md")
	must(t, err)
	for _, block := range strings.Split(string(guide), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.Contains(block, "apiVersion:") {
			texts["deploy.md"] = append(texts["deploy.md"], "---\n"+block...)
		}
	}
	for file, text := range texts {
		kinds, err := kubeObjects(text)
		if err != nil {
			t.Errorf("%s, after %v: %v", file, kinds, err)
		}
		for _, kind := range kinds {
			found[kind]++
		}
	}
	if found["StatefulSet"] != 1 || found["Deployment"] != 2 || found["Service"] < 3 || found["Secret"] < 2 || found["PodDisruptionBudget"] == 0 {
		t.Errorf("objects: %v", found)
	}
	store := string(texts["../../deploy/kubernetes/store.yaml"])
	for right, wrong := range map[string]string{
		"replicas: 3": "replicas: three", "clusterIP: None": "clusterIp: None", "kind: StatefulSet": "kind: StatefulSets", "containers:": "container:",
	} {
		if changed := strings.Replace(store, right, wrong, 1); changed == store {
			t.Errorf("store.yaml has no %q", right)
		} else if _, err := kubeObjects([]byte(changed)); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

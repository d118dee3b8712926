package manifests

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// kubeObjects decodes documents by the types of Kubernetes' API, as kubectl --dry-run=client --validate=strict does: an
// unknown kind or field, a field that is there twice, and a value of another type are errors.
func kubeObjects(text []byte) (objects []runtime.Object, err error) {
	scheme := runtime.NewScheme() // client-go's has all groups, which take as long to compile as the rest of this test
	for _, add := range []func(*runtime.Scheme) error{apps.AddToScheme, core.AddToScheme, network.AddToScheme, policy.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	for {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return objects, err
		}
		if len(bytes.TrimSpace(document[:n])) == 0 {
			continue
		}
		o, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			return objects, err
		}
		objects = append(objects, o)
	}
}

// kubeTexts returns the manifests of deploy by their file.
func kubeTexts(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string][]byte)
	for _, file := range files {
		texts[file], err = os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// TestKubernetesTypes decodes the manifests of deploy.
func TestKubernetesTypes(t *testing.T) {
	found := make(map[string]int)
	for file, text := range kubeTexts(t) {
		objects, err := kubeObjects(text)
		if err != nil {
			t.Errorf("%s, after %v: %v", file, objects, err)
		}
		for _, o := range objects {
			found[o.GetObjectKind().GroupVersionKind().Kind]++
		}
	}
	if found["StatefulSet"] != 1 || found["Deployment"] != 4 || found["Service"] < 4 || found["Secret"] < 4 || found["PodDisruptionBudget"] != 5 || found["NetworkPolicy"] != 4 {
		t.Errorf("objects: %v", found)
	}
}

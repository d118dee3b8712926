package k8s

import (
	"encoding/json"

	// Imported by the generated code; keeps go.mod independent of that code.
	_ "gopkg.in/inf.v0"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Decode returns objects from JSON.
func Decode(pod, deployment string) (*Objects, error) {
	o := &Objects{new(corev1.Pod), new(appsv1.Deployment)}
	if err := json.Unmarshal([]byte(pod), o.Pod); err != nil {
		return nil, err
	}
	return o, json.Unmarshal([]byte(deployment), o.Deployment)
}

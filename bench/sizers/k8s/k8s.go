package k8s

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

//go:generate go run github.com/taredb/tare/sizegen .

// Objects are objects that an informer caches.
//
//sizegen:root
type Objects struct {
	Pod        *corev1.Pod
	Deployment *appsv1.Deployment
}

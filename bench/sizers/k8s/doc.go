// Package k8s holds objects of the Kubernetes API. Its directives are the recipe of the README of sizegen.
package k8s
